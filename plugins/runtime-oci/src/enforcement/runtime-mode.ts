import type { Limitation } from '@oarlock/spi/runtime';

/** How containers are run: with an OCI runtime, which needs root, or with the programs of util-linux as root or as an ordinary user. */
export type RuntimeMode =
  | { readonly program: 'runc'; readonly path: string; readonly user: 'root' }
  | { readonly program: 'unshare'; readonly user: 'root' | 'user' };

/** Returns the mode in words, for `oarlock up` and the status of the runtime. */
export function describeMode(mode: RuntimeMode): string {
  if (mode.program === 'runc') return `containers run with ${mode.path}`;
  return mode.user === 'root'
    ? 'containers run with util-linux, because no OCI runtime (runc or crun) is installed'
    : 'containers run with util-linux in user namespaces with one user, because Oarlock does not run as root';
}

/** What containers do not get in each mode. The README has the same table. */
export const modeLimitations: Readonly<Record<'root with runc' | 'root without' | 'user', readonly Limitation[]>> = {
  'root with runc': [],
  'root without': [
    { feature: 'seccomp', message: 'seccomp profiles are not applied' },
    { feature: 'apparmor', message: 'AppArmor profiles are not applied' },
    { feature: 'capabilities', message: 'the capability MKNOD is not given' },
    { feature: 'mounts', message: 'mounts are not propagated to the node' },
  ],
  user: [
    { feature: 'seccomp', message: 'seccomp profiles are not applied' },
    { feature: 'apparmor', message: 'AppArmor profiles are not applied' },
    { feature: 'capabilities', message: 'the capability MKNOD is not given' },
    { feature: 'mounts', message: 'mounts are not propagated to the node' },
    { feature: 'users', message: 'every user of an image has the rights of one user, and groups are not applied' },
    { feature: 'namespaces', message: 'containers of a pod do not share process and IPC namespaces' },
    { feature: 'resources', message: 'limits of memory and CPU are not enforced: control groups need root' },
  ],
};

/** Returns the column of the README's table for a mode. */
export function modeName({ program, user }: RuntimeMode): keyof typeof modeLimitations {
  return user === 'user' ? 'user' : program === 'runc' ? 'root with runc' : 'root without';
}

/** Returns what containers do not get on this machine. `networks` is true if pods have network namespaces. */
export function limitations(
  mode: RuntimeMode,
  { cgroups, networks }: { readonly cgroups: boolean; readonly networks: boolean },
): readonly Limitation[] {
  const resources: Limitation = {
    feature: 'resources',
    message: 'limits of memory and CPU are not enforced: control groups cannot be created',
  };
  const network: Limitation = { feature: 'network', message: 'pods share the network of the node' };
  return [...modeLimitations[modeName(mode)], ...(cgroups || mode.user === 'user' ? [] : [resources]), ...(networks ? [] : [network])];
}
