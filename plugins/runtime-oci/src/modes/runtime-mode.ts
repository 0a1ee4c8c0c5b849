/** How containers are run: with an OCI runtime, which needs root, or with the programs of util-linux as root or as an ordinary user. */
export type RuntimeMode =
  | { readonly program: 'runc'; readonly path: string; readonly user: 'root'; readonly mapped?: true }
  /** `mapped`: root is that of a user namespace with many users. */
  | { readonly program: 'unshare'; readonly user: 'root' | 'user'; readonly mapped?: true };

/** Returns the mode in words, for `oarlock up` and the status of the runtime. */
export function describeMode(mode: RuntimeMode): string {
  const where = mode.mapped === true ? ' in a user namespace with many users' : '';
  if (mode.program === 'runc') return `containers run with ${mode.path}${where}`;
  return mode.user === 'root'
    ? `containers run with util-linux${where}, because no OCI runtime (runc or crun) is installed`
    : 'containers run with util-linux in user namespaces with one user, because Oarlock does not run as root';
}
