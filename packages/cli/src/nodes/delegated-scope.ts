import { access } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { readIfExists } from '@oarlock/primitives/os/atomic-file';
import { findDelegatedCgroup, unifiedCgroupOf } from '@oarlock/primitives/os/delegated-cgroup';
import { runProgram } from '@oarlock/primitives/os/run-program';
import { systemClock, type Clock } from '@oarlock/primitives/clock';
import { findProgram } from '@oarlock/process-supervisor/host/host-tools';

const timeoutMs = 5000;
/** systemd moves the process after its answer, and the kernel has no event for it. */
const moveTimeoutMs = 2000;
const moveIntervalMs = 20;

/** What a process needs to request a scope. */
export interface ScopeRequester {
  readonly clock: Clock;
  readonly pid: number;
  /** Undefined except on Linux. */
  readonly uid: number | undefined;
  /** The path of busctl, if it is installed. */
  readonly busctl: string | undefined;
  /** The directory of the user's systemd and bus ($XDG_RUNTIME_DIR). */
  readonly runtimeDirectory: string;
  /** Returns the text of /proc/self/cgroup. */
  readonly membership: () => Promise<string>;
  /** Returns true if the process may make control groups with limits where it is. */
  readonly hasDelegatedCgroup: () => boolean;
}

const thisProcess = (): ScopeRequester => ({
  clock: systemClock,
  pid: process.pid,
  uid: process.platform === 'linux' ? process.getuid?.() : undefined,
  busctl: findProgram('busctl'),
  runtimeDirectory: process.env['XDG_RUNTIME_DIR'] ?? `/run/user/${process.getuid?.()}`,
  membership: async () => (await readIfExists('/proc/self/cgroup')) ?? '',
  hasDelegatedCgroup: () => findDelegatedCgroup().path !== undefined,
});

/**
 * Moves this process to a scope of the user's systemd in which Oarlock may make control groups with limits (`Delegate=yes`), unless its control group is
 * delegated already. Does nothing for root, without a systemd of the user, and in a service: the unit file of a service decides itself. The scope lasts as
 * long as the pods. Returns why systemd made no scope, if one was requested.
 */
export async function enterDelegatedScope(requester: ScopeRequester = thisProcess()): Promise<string | undefined> {
  const { clock, uid, busctl, runtimeDirectory } = requester;
  if (uid === undefined || uid === 0) return undefined;
  const ownCgroup = async () => unifiedCgroupOf(await requester.membership()) ?? '';
  const before = await ownCgroup();
  if (before === '' || basename(before).endsWith('.service') || requester.hasDelegatedCgroup()) return undefined;
  const hasManager = await access(join(runtimeDirectory, 'systemd', 'private')).then(
    () => true,
    () => false,
  );
  if (busctl === undefined || !hasManager) return undefined;
  const env = { XDG_RUNTIME_DIR: runtimeDirectory };
  const { exitCode, stderr, killed } = await runProgram(clock, busctl, scopeRequest(requester), { env, timeoutMs });
  if (exitCode !== 0) return killed ?? (stderr.trim() || `busctl ended with exit code ${exitCode}`);
  for (let waited = 0; (await ownCgroup()) === before; waited += moveIntervalMs) {
    if (waited >= moveTimeoutMs) return `systemd did not move the process within ${moveTimeoutMs} ms`;
    await clock.sleep(moveIntervalMs);
  }
  return undefined;
}

/** Returns the arguments of busctl for StartTransientUnit of org.freedesktop.systemd1(5). */
function scopeRequest({ clock, pid }: ScopeRequester): readonly string[] {
  const manager = ['org.freedesktop.systemd1', '/org/freedesktop/systemd1', 'org.freedesktop.systemd1.Manager'];
  const properties = ['PIDs', 'au', '1', String(pid), 'Delegate', 'b', '1', 'Description', 's', 'Oarlock and its pods'];
  const unit = `oarlock-${pid}-${clock.now().toString(36)}.scope`;
  return ['--user', 'call', ...manager, 'StartTransientUnit', 'ssa(sv)a(sa(sv))', unit, 'fail', '3', ...properties, '0'];
}
