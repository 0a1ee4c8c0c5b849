import { describe, expect, it } from 'vitest';
import { cgroups } from '../../../src/doctor/checks/cgroups.ts';
import { fakeMachine, type FakeMachine } from '../../support/fake-machine.ts';

const find = (machine: FakeMachine) => cgroups.run({ machine: fakeMachine(machine), dataDir: '/data' });
const unified = '/sys/fs/cgroup/cgroup.controllers';

describe('cgroups', () => {
  it('accepts version 2 and version 1 if root can write', async () => {
    expect(await find({ root: true, files: { [unified]: 'cpu memory pids\n' }, writable: ['/sys/fs/cgroup'] })).toEqual({
      level: 'ok',
      found: 'version 2 with cpu, memory, pids; writable',
    });
    const old = { root: true, files: { '/sys/fs/cgroup/memory/cgroup.procs': '' }, writable: ['/sys/fs/cgroup/memory'] };
    expect(await find(old)).toEqual({ level: 'ok', found: 'version 1, writable' });
  });

  it('distinguishes a read-only mount from an ordinary user with or without delegation', async () => {
    const files = { [unified]: 'cpu memory pids\n', '/proc/self/cgroup': '0::/user.slice/a\n' };
    expect(await find({ root: true, files })).toMatchObject({ level: 'warn', found: expect.stringMatching(/read-only$/) });
    expect(await find({ files })).toMatchObject({ level: 'warn', found: expect.stringMatching(/not delegated to this user$/) });
    const own = { ...files, '/sys/fs/cgroup/user.slice/a/cgroup.controllers': 'cpu memory\n' };
    const writable = ['/sys/fs/cgroup/user.slice/a/cgroup.procs'];
    expect(await find({ files: own, writable })).toEqual({
      level: 'ok',
      found: 'version 2 with cpu, memory, pids; delegated to this user',
    });
  });

  it('accepts a systemd of the user that delegates what limits need', async () => {
    const manager = '/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/cgroup.controllers';
    const files = (controllers: string) => ({
      [unified]: 'cpu memory pids\n',
      '/proc/self/cgroup': '0::/user.slice/user-1000.slice/session-1.scope\n',
      '/proc/self/status': 'Name:\tnode\nUid:\t1000\t1000\t1000\t1000\n',
      '/run/user/1000/systemd/private': '',
      [manager]: `${controllers}\n`,
    });
    expect(await find({ files: files('cpu memory pids') })).toMatchObject({
      level: 'ok',
      found: expect.stringContaining('systemd of this user'),
    });
    expect(await find({ files: files('memory pids') })).toMatchObject({
      level: 'warn',
      remedy: expect.stringContaining('Delegate=cpu memory pids'),
    });
  });

  it('names controllers that the kernel lacks', async () => {
    expect(await find({ root: true, files: { [unified]: 'cpu pids\n' }, writable: ['/sys/fs/cgroup'] })).toMatchObject({
      level: 'warn',
      affects: 'Limits of memory are not enforced.',
    });
  });
});
