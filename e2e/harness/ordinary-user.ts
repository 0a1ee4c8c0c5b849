import { existsSync } from 'node:fs';
import { spawnSync } from 'node:child_process';

export interface UserIds {
  readonly uid: number;
  readonly gid: number;
}
/** The user `nobody`, which has no privileges and owns no files. */
export const ordinaryUser: UserIds = { uid: 65_534, gid: 65_534 };

/** Returns why a user's node cannot have a network of its own here; undefined if it can. */
export function userNamespacesMissing(user: UserIds | undefined): string | undefined {
  const file = ['/usr/sbin/nft', '/usr/lib/cni/bridge'].find((path) => !existsSync(path));
  if (file !== undefined) return `${file} is not installed`;
  const { status, stderr } = spawnSync('unshare', ['--user', '--map-root-user', '--net', 'true'], { ...user, cwd: '/', encoding: 'utf8' });
  return status === 0 ? undefined : `the kernel denies user namespaces: ${stderr}`;
}
