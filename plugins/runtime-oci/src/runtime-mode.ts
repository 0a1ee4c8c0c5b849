/** How containers are run: with an OCI runtime, which needs root, or with the programs of util-linux as root or as an ordinary user. */
export type RuntimeMode =
  | { readonly program: 'runc'; readonly path: string; readonly user: 'root' }
  | { readonly program: 'unshare'; readonly user: 'root' | 'user' };

/** Returns the mode in words, for `oarlock up` and `oarlock status`. */
export function describeMode(mode: RuntimeMode): string {
  if (mode.program === 'runc') return `containers run with ${mode.path}`;
  return mode.user === 'root'
    ? 'containers run with util-linux, because no OCI runtime (runc or crun) is installed'
    : 'containers run with util-linux in user namespaces with one user, because Oarlock does not run as root';
}

/** Returns what containers do not get in a mode, one sentence each. */
export function limitations(mode: RuntimeMode, { cgroups }: { readonly cgroups: boolean }): readonly string[] {
  const withoutRuntime = [
    describeMode(mode),
    'seccomp and AppArmor profiles are not applied',
    'the capability MKNOD is not given',
    'mounts are not propagated to the node',
  ];
  const asUser = [
    'every user of an image has the rights of one user; groups are not applied',
    'pods share the network of the node, and their containers do not share process and IPC namespaces',
  ];
  return [
    ...(mode.program === 'unshare' ? withoutRuntime : []),
    ...(mode.user === 'user' ? asUser : []),
    ...(cgroups ? [] : ['resource limits are not enforced: control groups cannot be created']),
  ];
}
