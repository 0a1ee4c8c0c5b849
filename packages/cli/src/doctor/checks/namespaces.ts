import { ok, type Check, type Finding } from './check.ts';
import type { Machine } from './machine.ts';

/** Options of `unshare` for a mount namespace in which this user may mount. */
export const mountNamespace = ({ root }: Machine): readonly string[] =>
  root ? ['--mount'] : ['--user', '--map-user=0', '--map-group=0', '--mount'];

const others = (root: boolean) => ['--pid', '--ipc', '--uts', ...(root ? ['--net'] : []), '--fork', '--mount-proc'];

const unisolated = 'embedded: pods see the files and processes of this machine; runtime-oci does not run.';

/** Makes the namespaces that pods need, as the user of this process. */
export const namespaces: Check = {
  name: 'namespaces',
  linux: true,
  async run({ machine }) {
    const unshare = machine.findProgram('unshare');
    if (unshare === undefined)
      return { level: 'warn', found: 'unshare is not installed', affects: unisolated, remedy: 'Install util-linux 2.38 or newer.' };
    const { code, problem } = await machine.run(unshare, [...mountNamespace(machine), ...others(machine.root), '--', 'true']);
    if (code === 0) return ok(machine.root ? 'mount, PID, IPC, UTS and network' : 'user, mount, PID, IPC and UTS');
    return machine.root ? deniedToRoot(problem) : deniedToUser(machine, problem);
  },
};

const deniedToRoot = (problem: string): Finding => ({
  level: 'warn',
  found: `root cannot make them: ${problem}`,
  affects: `${unisolated} Compositions with a bridge do not run.`,
  remedy: 'If this is a container, give it the capabilities SYS_ADMIN and NET_ADMIN (docker run --privileged).',
});

/** The settings that deny user namespaces to ordinary users, with the value that allows them. */
const sysctls: readonly { readonly name: string; readonly denies: string; readonly allow: string }[] = [
  { name: 'kernel.unprivileged_userns_clone', denies: '0', allow: '1' },
  { name: 'kernel.apparmor_restrict_unprivileged_userns', denies: '1', allow: '0' },
  { name: 'user.max_user_namespaces', denies: '0', allow: '15000' },
];

async function deniedToUser(machine: Machine, problem: string): Promise<Finding> {
  for (const { name, denies, allow } of sysctls) {
    const value = await machine.readText(`/proc/sys/${name.replaceAll('.', '/')}`);
    if (value?.trim() === denies)
      return {
        level: 'warn',
        found: `user namespaces are denied by ${name}=${denies}`,
        affects: unisolated,
        remedy: `Run \`sudo sysctl -w ${name}=${allow}\`, or run Oarlock as root.`,
      };
  }
  return {
    level: 'warn',
    found: `user namespaces cannot be made: ${problem}`,
    affects: unisolated,
    remedy: 'Allow user namespaces to ordinary users (in a container: with its seccomp profile), or run Oarlock as root.',
  };
}
