import { execFile, spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { available, unavailable, type Availability } from '@oarlock/kernel/plugin';
import { cgroupMount } from '@oarlock/primitives/os/delegated-cgroup';
import { mappedIds } from '@oarlock/primitives/os/user-namespace';
import { canMakeNamespaces, findProgram } from '@oarlock/process-supervisor/host/host-tools';
import type { RuntimeMode } from './modes/runtime-mode.ts';

const run = promisify(execFile);
const timeout = 10_000;
const required = ['mkfifo', 'mount', 'umount', 'pivot_root', 'unshare', 'nsenter', 'setpriv', 'ldd', 'env', 'hostname'] as const;

/**
 * Returns the path of runc, or of a crun that works here: it must keep containers that ended (`run --keep`), which older versions cannot, such as 1.8 of
 * Debian 12; and it rejects every container on a machine whose hierarchy of version 2 has controllers beside those of version 1.
 */
export function findOciRuntime(find: (name: string) => string | undefined, cgroups = cgroupMount): string | undefined {
  const runc = find('runc');
  if (runc !== undefined) return runc;
  const crun = find('crun');
  if (crun === undefined || isHybrid(cgroups)) return undefined;
  const { stdout } = spawnSync(crun, ['run', '--help'], { encoding: 'utf8', timeout });
  return stdout?.includes('--keep') ? crun : undefined;
}

function isHybrid(cgroups: string): boolean {
  const controllers = join(cgroups, 'unified', 'cgroup.controllers');
  return existsSync(controllers) && readFileSync(controllers, 'latin1').trim() !== '';
}

/** Returns how containers are run on this machine, without trying it. */
export function chooseMode(): RuntimeMode {
  if (!canMakeNamespaces()) return { program: 'unshare', user: process.getuid?.() === 0 ? 'root' : 'user' };
  // root of a user namespace without other users cannot switch to those of an image
  if (mappedIds() === 'one') return { program: 'unshare', user: 'user' };
  const mapped = mappedIds() === 'range' ? ({ mapped: true } as const) : {};
  const path = findOciRuntime(findProgram);
  return path === undefined ? { program: 'unshare', user: 'root', ...mapped } : { program: 'runc', path, user: 'root', ...mapped };
}

/** Checks whether this machine can run containers, in a user namespace if Oarlock does not run as root. */
export async function probe(): Promise<Availability> {
  if (process.platform !== 'linux') return unavailable(`${process.platform} has no namespaces`);
  const mode = chooseMode();
  if (mode.program === 'runc') return available;
  const missing = required.filter((name) => findProgram(name) === undefined);
  if (missing.length > 0) return unavailable(`programs are not installed: ${missing.join(', ')}`);
  if (mode.user === 'user') return tryUserNamespace();
  return canMakeNamespaces()
    ? available
    : unavailable('root lacks the capabilities SYS_ADMIN and NET_ADMIN, as in a container without privileges');
}

/** Makes the namespaces of a container once, because no setting of the kernel shows whether it permits them. */
async function tryUserNamespace(): Promise<Availability> {
  try {
    const flags = ['--user', '--map-user=0', '--map-group=0', '--mount', '--pid', '--ipc', '--uts', '--fork', '--mount-proc'];
    await run(findProgram('unshare') ?? '', [...flags, '--', findProgram('true') ?? ''], { timeout });
    return available;
  } catch (error) {
    return unavailable(
      `the kernel denies user namespaces to ordinary users (${(error as Error).message.trim().split('\n').at(-1)}); allow them with the sysctls user.max_user_namespaces, kernel.unprivileged_userns_clone=1 (Debian) or kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu), or run as root`,
    );
  }
}
