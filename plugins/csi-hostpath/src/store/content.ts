import { cp, mkdir, open, rm, truncate } from 'node:fs/promises';
import { GrpcError } from '@oarlock/grpc/grpc-error';
import type { VolumeStore } from './volume-store.ts';

/** `COPYFILE_FICLONE`: shares blocks if the file system supports it. */
const copyOnWrite = 2;

/** Copies the content of a volume or snapshot. A failed copy is removed. @throws GrpcError `RESOURCE_EXHAUSTED` if the disk is full */
export async function copy(store: VolumeStore, from: string, to: string): Promise<void> {
  try {
    await cp(store.content(from), store.content(to), {
      recursive: true,
      preserveTimestamps: true,
      // keeps the targets of links, instead of resolving them against the source
      verbatimSymlinks: true,
      mode: copyOnWrite,
    });
  } catch (error) {
    await rm(store.content(to), { recursive: true, force: true });
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOSPC' || code === 'EDQUOT') throw new GrpcError('RESOURCE_EXHAUSTED', `not enough disk space for a copy of ${from}`);
    throw error;
  }
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
