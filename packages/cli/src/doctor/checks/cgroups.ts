import { join } from 'node:path';
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
  if (machine.root && (await machine.isWritable(root))) return ok(`${found}; writable`);
  const own = /^0::(\/.*)$/m.exec((await machine.readText('/proc/self/cgroup')) ?? '')?.[1];
  const delegated = own !== undefined && own !== '/' && (await machine.isWritable(join(root, own, 'cgroup.procs')));
  return notWritable(machine, `${found}${delegated ? '; delegated to this user' : ''}`);
}

const notWritable = (machine: Machine, found: string): Finding => ({
  level: 'warn',
  found: machine.root ? `${found}; read-only` : `${found}; Oarlock uses it as root only`,
  affects: unlimited,
  remedy: machine.root
    ? 'Mount the control groups writable (in a container: --privileged or --cgroupns=host with a writable mount).'
    : 'Run Oarlock as root to enforce limits.',
});
