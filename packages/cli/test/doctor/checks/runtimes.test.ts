import { expect, it } from 'vitest';
import { containerd, docker, ociRuntime } from '../../../src/doctor/checks/runtimes.ts';
import { failing, fakeMachine, type FakeMachine } from '../../support/fake-machine.ts';

const context = (machine: FakeMachine) => ({ machine: fakeMachine(machine), dataDir: '/data' });

it('takes runc, or else crun, and reports a program that does not run', async () => {
  const run = async (program: string) => ({ code: 0, stdout: `${program} 1.1\nmore`, problem: '' });
  expect(await ociRuntime.run(context({ programs: ['runc', 'crun'], run }))).toEqual({ level: 'ok', found: '/usr/bin/runc 1.1' });
  const withKeep = async (path: string, args: readonly string[]) =>
    args.includes('--help') ? { code: 0, stdout: '--detach --keep', problem: '' } : run(path);
  expect(await ociRuntime.run(context({ programs: ['crun'], run: withKeep }))).toEqual({ level: 'ok', found: '/usr/bin/crun 1.1' });
  const files = { '/sys/fs/cgroup/unified/cgroup.controllers': 'hugetlb\n' };
  expect(await ociRuntime.run(context({ programs: ['crun'], run: withKeep, files }))).toMatchObject({
    level: 'warn',
    found: expect.stringContaining('rejects control groups of both versions'),
  });
  expect(await ociRuntime.run(context({ programs: ['crun'], run }))).toMatchObject({
    level: 'warn',
    found: '/usr/bin/crun is too old: it lacks `run --keep`',
  });
  expect(await ociRuntime.run(context({ programs: ['runc'], run: failing('exec format error') }))).toMatchObject({ level: 'warn' });
});

it.each([
  [undefined, 'ok', /answers at/],
  ['ENOENT', 'warn', /no socket/],
  ['EACCES', 'warn', /no permission/],
  ['ECONNREFUSED', 'warn', /does not answer: ECONNREFUSED/],
])('reports what the socket of an engine answers: %s', async (code, level, found) => {
  for (const engine of [containerd, docker]) {
    const finding = await engine.run(context({ connect: async () => code }));
    expect(finding).toMatchObject({ level, found: expect.stringMatching(found) });
  }
});
