import { access } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { readIfExists } from '@oarlock/primitives/os/atomic-file';
import { findDelegatedCgroup, unifiedCgroupOf } from '@oarlock/primitives/os/delegated-cgroup';
import { runProgram } from '@oarlock/primitives/os/run-program';
import { systemClock } from '@oarlock/primitives/clock';
import { findProgram } from '@oarlock/process-supervisor/host/host-tools';

const timeoutMs = 5000;
/** systemd moves the process after its answer, and the kernel has no event for it. */
const moveTimeoutMs = 2000;
const moveIntervalMs = 20;

const ownCgroup = async (): Promise<string> => unifiedCgroupOf((await readIfExists('/proc/self/cgroup')) ?? '') ?? '';

/**
 * Moves this process to a scope of the user's systemd in which Oarlock may make control groups with limits (`Delegate=yes`), unless its control group is
 * delegated already. Does nothing for root, without a systemd of the user, and in a service: the unit file of a service decides itself. The scope lasts as
 * long as the pods.
 */
export async function enterDelegatedScope(): Promise<void> {
  if (process.platform !== 'linux' || process.getuid?.() === 0) return;
  const before = await ownCgroup();
  if (before === '' || basename(before).endsWith('.service') || findDelegatedCgroup().path !== undefined) return;
  const busctl = findProgram('busctl');
  const runtime = process.env['XDG_RUNTIME_DIR'] ?? `/run/user/${process.getuid?.()}`;
  const hasManager = await access(join(runtime, 'systemd', 'private')).then(
    () => true,
    () => false,
  );
  if (busctl === undefined || !hasManager) return;
  const manager = ['org.freedesktop.systemd1', '/org/freedesktop/systemd1', 'org.freedesktop.systemd1.Manager'];
  const properties = ['PIDs', 'au', '1', String(process.pid), 'Delegate', 'b', '1', 'Description', 's', 'Oarlock and its pods'];
  const unit = `oarlock-${process.pid}-${systemClock.now().toString(36)}.scope`;
  const args = ['--user', 'call', ...manager, 'StartTransientUnit', 'ssa(sv)a(sa(sv))', unit, 'fail', '3', ...properties, '0'];
  const { exitCode } = await runProgram(systemClock, busctl, args, { env: { XDG_RUNTIME_DIR: runtime }, timeoutMs });
  // without the scope, the node reports that it enforces no limits
  if (exitCode !== 0) return;
  for (let waited = 0; waited < moveTimeoutMs && (await ownCgroup()) === before; waited += moveIntervalMs)
    await systemClock.sleep(moveIntervalMs);
}
