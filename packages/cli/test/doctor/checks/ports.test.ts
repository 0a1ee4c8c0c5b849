import { expect, it } from 'vitest';
import { ports } from '../../../src/doctor/checks/ports.ts';
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
