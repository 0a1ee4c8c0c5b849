import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { findOciRuntime } from '../src/probe.ts';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'oarlock-programs-'));
});
afterEach(() => rmSync(directory, { recursive: true }));

/** Writes a crun with these options of `run`, and returns its path. */
function crun(...options: readonly string[]): string {
  const path = join(directory, 'crun');
  writeFileSync(path, `#!/bin/sh\n[ "$*" = 'run --help' ] && echo 'Usage: run [OPTION...] ${options.join(' ')}'\n`);
  chmodSync(path, 0o755);
  return path;
}

it('prefers runc, and takes a crun only if it keeps containers that ended', () => {
  const find = (programs: Readonly<Record<string, string>>) => findOciRuntime((name) => programs[name], directory);
  const recent = crun('--detach', '--keep');
  expect(find({ crun: recent })).toBe(recent);
  expect(find({ runc: '/usr/sbin/runc', crun: recent })).toBe('/usr/sbin/runc');
  expect(find({ crun: crun('--detach') })).toBeUndefined();
  expect(find({ crun: join(directory, 'absent') })).toBeUndefined();
  expect(find({})).toBeUndefined();
});

it('takes no crun where hierarchies of control groups of both versions have controllers', () => {
  const recent = crun('--keep');
  const find = (controllers: string) => {
    mkdirSync(join(directory, 'unified'), { recursive: true });
    writeFileSync(join(directory, 'unified', 'cgroup.controllers'), controllers);
    return findOciRuntime((name) => (name === 'crun' ? recent : undefined), directory);
  };
  expect(find('\n')).toBe(recent);
  expect(find('hugetlb\n')).toBeUndefined();
});
