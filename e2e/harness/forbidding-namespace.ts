import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { mustRun } from './programs.ts';
import type { UserIds } from './ordinary-user.ts';

export interface ForbiddingNamespace {
  /** Words in front of a command that runs as the user. */
  readonly enter: readonly [file: string, ...args: string[]];
  release(): void;
}

/** Makes a user namespace with the users of this machine in which the kernel denies further user namespaces, as a sysctl of a whole machine does. Needs root. */
export async function forbidUserNamespaces({ uid, gid }: UserIds): Promise<ForbiddingNamespace> {
  const holder = spawn('unshare', ['--user', '--', 'sh', '-c', 'echo made; read end'], { stdio: ['pipe', 'pipe', 'inherit'] });
  await once(holder.stdout, 'data');
  for (const map of ['uid_map', 'gid_map']) await writeFile(`/proc/${holder.pid}/${map}`, '0 0 65536\n');
  const enter = ['--target', String(holder.pid), '--user'];
  // the setting of the namespace of the process that writes it
  await mustRun('nsenter', [...enter, '--', 'sh', '-c', 'echo 0 > /proc/sys/user/max_user_namespaces']);
  return { enter: ['nsenter', ...enter, '--setuid', String(uid), '--setgid', String(gid), '--'], release: () => holder.stdin.end() };
}
