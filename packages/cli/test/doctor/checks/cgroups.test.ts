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
    expect(await find({ files })).toMatchObject({ level: 'warn', found: expect.not.stringContaining('delegated') });
    expect(await find({ files, writable: ['/sys/fs/cgroup/user.slice/a/cgroup.procs'] })).toMatchObject({
      level: 'warn',
      found: expect.stringContaining('delegated to this user'),
    });
  });

  it('names controllers that the kernel lacks', async () => {
    expect(await find({ root: true, files: { [unified]: 'cpu pids\n' }, writable: ['/sys/fs/cgroup'] })).toMatchObject({
      level: 'warn',
      affects: 'Limits of memory are not enforced.',
    });
  });
});
