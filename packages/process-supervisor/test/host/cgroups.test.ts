import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '@oarlock/primitives/clock';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CgroupManager } from '../../src/host/cgroups.ts';

const isRoot = process.getuid?.() === 0;

/** A directory with the files that the kernel makes in a cgroup v2, since a cgroup made there has none. */
describe.runIf(isRoot && process.platform === 'linux')('CgroupManager on cgroup v2', () => {
  let root: string;
  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), 'oarlock-cgroups-'));
    addFiles('', { 'cgroup.controllers': 'cpuset cpu io memory pids\n', 'cgroup.subtree_control': '' });
  });
  afterEach(() => rmSync(root, { recursive: true }));

  function addFiles(path: string, files: Readonly<Record<string, string>>): void {
    mkdirSync(join(root, path), { recursive: true });
    for (const [name, text] of Object.entries(files)) writeFileSync(join(root, path, name), text);
  }
  const contents = (file: string) => readFileSync(join(root, file), 'utf8');
  const open = (controllers = 'cpuset cpu io memory pids') => {
    addFiles('oarlock/probe', { 'cgroup.controllers': `${controllers}\n` });
    return CgroupManager.open(systemClock, root);
  };

  it('is opened if a new cgroup gets the controllers of memory and CPU', () => {
    expect(open()?.version).toBe(2);
    expect(open('pids')).toBeUndefined();
    expect(open('')).toBeUndefined();
  });

  it('is opened in the cgroup that is delegated to the user where the root is not theirs', () => {
    const scope = 'user.slice/app.slice/oarlock-7.scope';
    addFiles(scope, { 'cgroup.controllers': 'cpu memory pids\n', 'cgroup.procs': '', 'cgroup.subtree_control': '' });
    addFiles(`${scope}/oarlock/probe`, { 'cgroup.controllers': 'cpu memory pids\n' });
    addFiles('oarlock/probe', { 'cgroup.controllers': '\n' });
    const groups = CgroupManager.open(systemClock, root, `0::/${scope}\n`);
    expect(groups?.below('pod')).toBe(`${scope}/pod`);
    groups?.make(`${scope}/pod/main`).apply({ memoryLimitBytes: 4096, cpusetCpus: '0' });
    expect(contents(`${scope}/pod/main/memory.max`)).toBe('4096');
    // what is above belongs to others
    mkdirSync(join(root, 'user.slice/empty'));
    groups?.removeEmpty('user.slice/empty');
    expect(existsSync(join(root, 'user.slice/empty'))).toBe(true);
    expect(open()?.below('pod')).toBe('pod');
  });

  it('enables controllers in each ancestor, but not in the cgroup, which has processes', () => {
    open()?.make('kubepods/pod1/main');
    for (const parent of ['', 'kubepods/', 'kubepods/pod1/']) expect(contents(`${parent}cgroup.subtree_control`)).toBe('+io');
    expect(existsSync(join(root, 'kubepods/pod1/main/cgroup.subtree_control'))).toBe(false);
  });

  it.each(['..', 'a/../b', '/a', 'a//b', 'a b'])('does not make the cgroup %j', (path) => {
    expect(() => open()?.make(path)).toThrow('not a path of a control group');
  });

  it('writes limits in the units of the kernel', () => {
    const cgroup = open()?.make('pod/main');
    const limits = { memoryLimitBytes: 64 << 20, memorySwapLimitBytes: 96 << 20, cpuShares: 1024, cpuQuota: 50_000, cpusetCpus: '0-1' };
    cgroup?.apply({ ...limits, unified: { 'memory.high': '1000', '../escape': '1' } });
    const files = ['memory.max', 'memory.swap.max', 'cpu.weight', 'cpu.max', 'cpuset.cpus', 'memory.high'];
    const values = ['67108864', '33554432', '100', '50000 100000', '0-1', '1000'];
    expect(files.map((file) => contents(`pod/main/${file}`))).toEqual(values);
    cgroup?.apply({ memoryLimitBytes: -1, cpuQuota: -1, cpuPeriod: 20_000 });
    expect([contents('pod/main/memory.max'), contents('pod/main/cpu.max')]).toEqual(['max', 'max 20000']);
  });

  it('reads usage and kills for lack of memory', () => {
    const cgroup = open()?.make('pod/main');
    expect(cgroup?.usage()).toEqual({ cpuNanos: 0, workingSetBytes: 0, rssBytes: 0 });
    addFiles('pod/main', {
      'memory.current': '5000\n',
      'memory.stat': 'anon 3000\nfile 2000\nactive_anon 1\ninactive_file 1500\n',
      'cpu.stat': 'usage_usec 42\nuser_usec 40\nsystem_usec 2\n',
      'memory.events': 'low 0\nhigh 0\nmax 9\noom 1\noom_kill 0\n',
    });
    expect(cgroup?.usage()).toEqual({ cpuNanos: 42_000, workingSetBytes: 3500, rssBytes: 3000 });
    expect(cgroup?.wasOutOfMemory()).toBe(false);
    addFiles('pod/main', { 'memory.events': 'oom 1\noom_kill 1\noom_group_kill 0\n' });
    expect(cgroup?.wasOutOfMemory()).toBe(true);
  });

  it('kills through cgroup.kill, or each process on kernels before 5.14, also in cgroups below', async () => {
    const cgroup = open()?.make('pod/main');
    const child = spawn('sleep', ['1000']);
    const exited = once(child, 'exit');
    addFiles('pod/main/nested', { 'cgroup.procs': `${child.pid}\n` });
    addFiles('pod/main', { 'cgroup.kill': '' });
    cgroup?.kill();
    expect(contents('pod/main/cgroup.kill')).toBe('1');
    rmSync(join(root, 'pod/main/cgroup.kill'));
    cgroup?.kill();
    expect(await exited).toEqual([null, 'SIGKILL']);
  });

  it('removes a cgroup with those below it', async () => {
    const groups = open();
    const cgroup = groups?.make('pod/main');
    mkdirSync(join(root, 'pod/main/a/b'), { recursive: true });
    expect(groups?.find('pod/main')).toBeDefined();
    await cgroup?.remove();
    await cgroup?.remove();
    expect(existsSync(join(root, 'pod/main'))).toBe(false);
    expect(groups?.find('pod/main')).toBeUndefined();
  });
});
