import { cp, mkdir, open, rm, truncate } from 'node:fs/promises';
import { GrpcError } from '@oarlock/grpc/grpc-error';
import type { VolumeStore } from './volume-store.ts';

/** `COPYFILE_FICLONE`: shares blocks where the file system can. */
const copyOnWrite = 2;

/** Copies the content of one volume or snapshot to another; half a copy is removed. @throws GrpcError `RESOURCE_EXHAUSTED` */
export async function copy(store: VolumeStore, from: string, to: string): Promise<void> {
  try {
    await cp(store.content(from), store.content(to), {
      recursive: true,
      preserveTimestamps: true,
      // links lead where they led, and not into what is copied
      verbatimSymlinks: true,
      mode: copyOnWrite,
    });
  } catch (error) {
    await rm(store.content(to), { recursive: true, force: true });
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOSPC' || code === 'EDQUOT')
      throw new GrpcError('RESOURCE_EXHAUSTED', `there is no room on the disk for a copy of ${from}`);
    throw error;
  }
}

/** Makes what a new volume has: a file of its size for a block device, a directory else. */
export async function fill(
  store: VolumeStore,
  id: string,
  { bytes, block, from }: { readonly bytes: number; readonly block: boolean; readonly from?: string | undefined },
): Promise<void> {
  const content = store.content(id);
  if (from !== undefined) await copy(store, from, id);
  else if (block) await (await open(content, 'wx', 0o600)).close();
  // whoever runs in the pod decides what it may write
  else await mkdir(content, { mode: 0o777 });
  if (block) await truncate(content, bytes);
}
