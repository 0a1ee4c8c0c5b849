import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { findDelegatedCgroup, openDelegatedCgroup } from '../../src/os/delegated-cgroup.ts';

const scope = 'user.slice/user-1000.slice/user@1000.service/app.slice/oarlock-7.scope';

describe('a delegated cgroup', () => {
  let mount: string;
  /** A directory with the files that the kernel makes in a cgroup v2, since a cgroup made there has none. */
  const addFiles = (path: string, files: Readonly<Record<string, string>>) => {
    mkdirSync(join(mount, path), { recursive: true });
    for (const [name, text] of Object.entries(files)) writeFileSync(join(mount, path, name), text);
  };
  const cgroup = (path: string, controllers = 'cpu memory pids') =>
    addFiles(path, { 'cgroup.controllers': `${controllers}\n`, 'cgroup.procs': '41\n42\n', 'cgroup.subtree_control': '' });
  beforeEach(() => {
    mount = mkdtempSync(join(tmpdir(), 'delegated-cgroup-'));
    cgroup('');
  });
  afterEach(() => rmSync(mount, { recursive: true }));

  it('is the one of this process, or the one above the processes that were moved', () => {
    cgroup(scope);
    for (const own of [scope, `${scope}/oarlock-host`])
      expect(findDelegatedCgroup({ mount, membership: `1:name=systemd:/x\n0::/${own}\n` })).toEqual({ path: scope });
  });

  it('moves the processes of the cgroup to one below when it is opened', () => {
    cgroup(scope);
    expect(openDelegatedCgroup({ mount, membership: `0::/${scope}\n` })).toBe(scope);
    expect(readFileSync(join(mount, scope, 'oarlock-host', 'cgroup.procs'), 'utf8')).toBe('42');
  });

  it('states why there is none', () => {
    const problem = (membership: string) => findDelegatedCgroup({ mount, membership }).problem;
    cgroup(scope, 'memory pids');
    expect(problem(`0::/${scope}\n`)).toBe('the control group of the user lacks the controllers cpu');
    const none = 'no control group is delegated to the user';
    expect(problem('0::/\n')).toBe(none);
    expect(problem('0::/user.slice/session-1.scope\n')).toBe(none);
    const old = 'the machine has no control groups of version 2';
    expect(problem('4:memory:/a\n')).toBe(old);
    rmSync(join(mount, 'cgroup.controllers'));
    expect(problem(`0::/${scope}\n`)).toBe(old);
    expect(openDelegatedCgroup({ mount, membership: `0::/${scope}\n` })).toBeUndefined();
  });
});
