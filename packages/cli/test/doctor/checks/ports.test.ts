import { expect, it } from 'vitest';
import { ports, privilegedPorts } from '../../../src/doctor/checks/ports.ts';
import { fakeMachine } from '../../support/fake-machine.ts';

const findings = (code: string | undefined) =>
  Promise.all(ports.map((port) => port.run({ machine: fakeMachine({ listen: async () => code }), dataDir: '/nowhere' })));

it('reports ports of the API server and of the kubelet that are not free', async () => {
  expect(ports.map(({ name }) => name)).toEqual(['port 6443', 'port 10250']);
  expect(await findings(undefined)).toEqual([
    { level: 'ok', found: 'free' },
    { level: 'ok', found: 'free' },
  ]);
  expect(await findings('EADDRINUSE')).toMatchObject([
    { level: 'warn', found: 'another process listens on it', affects: expect.stringContaining('takes a free port for the API server') },
    { level: 'warn', affects: expect.stringContaining('takes a free port for the kubelet') },
  ]);
  expect(await findings('EACCES')).toMatchObject([
    { found: 'cannot be used: EACCES', remedy: expect.stringContaining('server: { port: N }') },
    { level: 'warn', remedy: expect.stringContaining('kubelet: { port: N }') },
  ]);
});

it('reports which ports of Services an ordinary user has', async () => {
  const find = (root: boolean, first: string) => {
    const files = { '/proc/sys/net/ipv4/ip_unprivileged_port_start': `${first}\n` };
    return privilegedPorts.run({ machine: fakeMachine({ root, files }), dataDir: '/nowhere' });
  };
  expect(await find(true, '1024')).toMatchObject({ level: 'ok' });
  expect(await find(false, '53')).toEqual({ level: 'ok', found: 'usable from 53' });
  expect(await find(false, '1024')).toMatchObject({
    level: 'warn',
    found: 'this user may listen from port 1024',
    remedy: expect.stringContaining('sudo sysctl net.ipv4.ip_unprivileged_port_start=53'),
  });
});
