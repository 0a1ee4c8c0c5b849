import { join } from 'node:path';
import { unifiedCgroupOf } from '@oarlock/primitives/os/delegated-cgroup';
import { ok, type Check, type Finding } from './check.ts';
import type { Machine } from './machine.ts';

const root = '/sys/fs/cgroup';
const unlimited = 'embedded and runtime-oci: limits of pods are not enforced, and metrics of pods are estimates.';

/** The control groups with which limits of pods are enforced. */
export const cgroups: Check = {
  name: 'cgroups',
  linux: true,
  async run({ machine }) {
    const controllers = await machine.readText(join(root, 'cgroup.controllers'));
    if (controllers !== undefined) return versionTwo(machine, controllers.trim().split(/\s+/));
    if (!(await machine.exists(join(root, 'memory', 'cgroup.procs')))) return missing;
    const writable = machine.root && (await machine.isWritable(join(root, 'memory')));
    return writable ? ok('version 1, writable') : notWritable(machine, 'version 1');
  },
};

const missing: Finding = {
  level: 'warn',
  found: 'not mounted',
  affects: unlimited,
  remedy: `Mount cgroup version 2 at ${root}.`,
};

async function versionTwo(machine: Machine, controllers: readonly string[]): Promise<Finding> {
  const lacking = ['cpu', 'memory', 'pids'].filter((name) => !controllers.includes(name));
  const found = `version 2 with ${controllers.join(', ')}`;
  if (lacking.length > 0)
    return {
      level: 'warn',
      found,
      affects: `Limits of ${lacking.join(', ')} are not enforced.`,
      remedy: `Enable the controllers ${lacking.join(', ')} in the kernel (for memory: boot with cgroup_enable=memory).`,
    };
  if (machine.root) return (await machine.isWritable(root)) ? ok(`${found}; writable`) : notWritable(machine, found);
  return delegation(machine, found);
}

/** What an ordinary user has: a control group that is delegated already, or a systemd that delegates one when Oarlock starts. */
async function delegation(machine: Machine, found: string): Promise<Finding> {
  const own = unifiedCgroupOf((await machine.readText('/proc/self/cgroup')) ?? '') ?? '/';
  if (own !== '/' && (await machine.isWritable(join(root, own, 'cgroup.procs'))) && (await hasBoth(machine, own)))
    return ok(`${found}; delegated to this user`);
  const uid = /^Uid:\s+(\d+)/m.exec((await machine.readText('/proc/self/status')) ?? '')?.[1] ?? '';
  const manager = `/user.slice/user-${uid}.slice/user@${uid}.service`;
  if (!(await machine.exists(`/run/user/${uid}/systemd/private`))) return notWritable(machine, found);
  if (await hasBoth(machine, manager)) return ok(`${found}; systemd of this user delegates them`);
  return {
    level: 'warn',
    found: `${found}; systemd delegates not all of them to users`,
    affects: unlimited,
    remedy: 'Write `[Service]` and `Delegate=cpu memory pids` to /etc/systemd/system/user@.service.d/delegate.conf, and log in again.',
  };
}

async function hasBoth(machine: Machine, group: string): Promise<boolean> {
  const controllers = ((await machine.readText(join(root, group, 'cgroup.controllers'))) ?? '').trim().split(/\s+/);
  return ['cpu', 'memory'].every((name) => controllers.includes(name));
}

const notWritable = (machine: Machine, found: string): Finding => ({
  level: 'warn',
  found: machine.root ? `${found}; read-only` : `${found}; not delegated to this user`,
  affects: unlimited,
  remedy: machine.root
    ? 'Mount the control groups writable (in a container: --privileged or --cgroupns=host with a writable mount).'
    : 'Log in with a systemd of the user (version 2), or run Oarlock as root.',
});
