import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '@oarlock/primitives/clock';
import { enterDelegatedScope, type ScopeRequester } from '../../src/nodes/delegated-scope.ts';

const session = '/user.slice/user-1000.slice/session-1.scope';
const now = Date.UTC(2026, 10, 30);
/** What busctl of systemd 252 prints on stderr, with exit code 1. */
const failures = {
  'a bus that cannot be reached': 'Failed to connect to bus: No such file or directory',
  'a unit of the same name': 'Call failed: Unit oarlock-4711-mikhkcg0.scope was already loaded or has a fragment file.',
  'a process that has ended': 'Call failed: Process with ID 4711 does not exist.',
  'a process of systemd': 'Call failed: Process 1 is a manager process, refusing.',
};

describe('enterDelegatedScope', () => {
  let directory: string;
  let membership: string;
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'oarlock-scope-'));
    membership = join(directory, 'cgroup');
    await writeFile(membership, `0::${session}\n`);
    await mkdir(join(directory, 'systemd'));
    await writeFile(join(directory, 'systemd', 'private'), '');
  });
  afterEach(() => rm(directory, { recursive: true, force: true }));

  /** Writes a program that records its arguments and environment, and then runs `script`. */
  async function standIn(script: string): Promise<string> {
    const file = join(directory, 'busctl');
    const lines = ['#!/bin/sh', 'cd "$(dirname "$0")"', 'printf "%s\\n" "$@" > arguments', 'env > environment', script, ''];
    await writeFile(file, lines.join('\n'), { mode: 0o755 });
    return file;
  }
  const requester = (changes: Partial<ScopeRequester>): ScopeRequester => ({
    clock: { ...systemClock, now: () => now, sleep: async () => {} },
    pid: 4711,
    uid: 1000,
    busctl: undefined,
    runtimeDirectory: directory,
    membership: () => readFile(membership, 'utf8'),
    hasDelegatedCgroup: () => false,
    ...changes,
  });
  const recorded = async (name: 'arguments' | 'environment') => (await readFile(join(directory, name), 'utf8')).trimEnd().split('\n');
  const moves = `echo 'o "/org/freedesktop/systemd1/job/7"'; echo "0::/user.slice/oarlock-4711.scope" > cgroup`;

  it('requests a delegated scope with this process from the systemd of the user', async () => {
    expect(await enterDelegatedScope(requester({ busctl: await standIn(moves) }))).toBeUndefined();
    expect(await recorded('arguments')).toEqual([
      ...['--user', 'call', 'org.freedesktop.systemd1', '/org/freedesktop/systemd1', 'org.freedesktop.systemd1.Manager'],
      ...['StartTransientUnit', 'ssa(sv)a(sa(sv))', `oarlock-4711-${now.toString(36)}.scope`, 'fail'],
      ...['3', 'PIDs', 'au', '1', '4711', 'Delegate', 'b', '1', 'Description', 's', 'Oarlock and its pods', '0'],
    ]);
    expect(await recorded('environment')).toContain(`XDG_RUNTIME_DIR=${directory}`);
  });

  it('waits until systemd has moved the process', async () => {
    let reads = 0;
    const busctl = await standIn('exit 0');
    const moved = async () => `0::${++reads < 5 ? session : '/user.slice/oarlock-4711.scope'}\n`;
    expect(await enterDelegatedScope(requester({ busctl, membership: moved }))).toBeUndefined();
    expect(reads).toBe(5);
  });

  it('reports a process that systemd does not move', async () => {
    const problem = await enterDelegatedScope(requester({ busctl: await standIn('exit 0') }));
    expect(problem).toBe('systemd did not move the process within 2000 ms');
  });

  it.each(Object.entries(failures))('reports %s in the words of busctl', async (_, text) => {
    const busctl = await standIn(`printf '%s\\n' '${text}' >&2; exit 1`);
    expect(await enterDelegatedScope(requester({ busctl }))).toBe(text);
  });

  it('reports the exit code of a busctl without words', async () => {
    expect(await enterDelegatedScope(requester({ busctl: await standIn('exit 3') }))).toBe('busctl ended with exit code 3');
  });

  const withoutRequest: Readonly<Record<string, Partial<ScopeRequester>>> = {
    root: { uid: 0 },
    'another system than Linux': { uid: undefined },
    'a delegated control group': { hasDelegatedCgroup: () => true },
    'a process of a service': { membership: async () => '0::/system.slice/oarlock.service\n' },
    'a machine without control groups of version 2': { membership: async () => '4:memory:/\n' },
    'a user without systemd': { runtimeDirectory: '/nonexistent' },
  };
  it.each(Object.entries(withoutRequest))('requests no scope for %s', async (_, changes) => {
    expect(await enterDelegatedScope(requester({ busctl: await standIn(moves), ...changes }))).toBeUndefined();
    await expect(recorded('arguments')).rejects.toThrow('ENOENT');
  });
});
