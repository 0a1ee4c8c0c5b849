import { constants } from 'node:fs';
import { chmod, chown, copyFile, lchown, mkdir, open, rm, symlink, truncate, utimes } from 'node:fs/promises';
import { GrpcError } from '@oarlock/grpc/grpc-error';
import { canChangeOwner } from '@oarlock/primitives/os/user-namespace';
import { targetOfLink, withOpenedEntry, type OpenedEntry } from '@oarlock/primitives/os/opened-entry';
import type { VolumeStore } from './volume-store.ts';

const slash = Buffer.from('/');

/** Copies the content of a volume or snapshot. A failed copy is removed. @throws GrpcError `RESOURCE_EXHAUSTED` if the disk is full */
export async function copy(store: Pick<VolumeStore, 'content'>, from: string, to: string): Promise<void> {
  try {
    await withOpenedEntry(store.content(from), (entry) => copyEntry(entry, Buffer.from(store.content(to))));
  } catch (error) {
    await rm(store.content(to), { recursive: true, force: true });
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOSPC' || code === 'EDQUOT') throw new GrpcError('RESOURCE_EXHAUSTED', `not enough disk space for a copy of ${from}`);
    throw error;
  }
}

/**
 * Copies a tree with its modes, the times of its files, the targets of its links and, where the process may set them, its owners. A pod may replace names in
 * the tree meanwhile.
 */
async function copyEntry(entry: OpenedEntry, to: Buffer): Promise<void> {
  const { stats, path, forEach } = entry;
  const keepsOwner = canChangeOwner();
  if (stats.isSymbolicLink()) {
    const target = await targetOfLink(entry);
    if (target === undefined) return;
    await symlink(target, to);
    if (keepsOwner) await lchown(to, stats.uid, stats.gid);
    return;
  }
  if (stats.isDirectory()) {
    await mkdir(to);
    await forEach((child, name) => copyEntry(child, Buffer.concat([to, slash, name])));
  } else if (stats.isFile()) {
    await copyFile(path, to, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE);
    await utimes(to, stats.atime, stats.mtime);
  } else throw new Error('a volume with sockets, pipes or devices cannot be copied');
  if (keepsOwner) await chown(to, stats.uid, stats.gid);
  // without their owner, setuid files would run as the user of this process
  await chmod(to, stats.mode & (keepsOwner ? 0o7777 : 0o1777));
}

/** Creates the content of a new volume: a file of the volume's size for a block device, otherwise a directory. */
export async function createContent(
  store: VolumeStore,
  id: string,
  { bytes, block, from }: { readonly bytes: number; readonly block: boolean; readonly from?: string | undefined },
): Promise<void> {
  const content = store.content(id);
  if (from !== undefined) await copy(store, from, id);
  else if (block) await (await open(content, 'wx', 0o600)).close();
  // 0o777: the user of the pod is not known; the kubelet sets the ownership
  else await mkdir(content, { mode: 0o777 });
  if (block) await truncate(content, bytes);
}
