import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { ImageRecord } from '@oarlock/oci/image-store';
import { OciError } from '@oarlock/oci/oci-error';
import type { OpenImageStore } from '@oarlock/oci/open-image-store';
import type { RootFilesystem, Snapshot } from '@oarlock/oci/snapshotter';

export const directoryImage: ImageRecord = {
  id: `sha256:${'0'.repeat(64)}`,
  repoTags: ['oarlock.test/busybox:1'],
  repoDigests: [`oarlock.test/busybox@sha256:${'1'.repeat(64)}`],
  sizeBytes: 1,
  manifestDigest: `sha256:${'1'.repeat(64)}`,
  config: {
    os: 'linux',
    architecture: 'amd64',
    entrypoint: [],
    cmd: ['/bin/sh'],
    env: ['PATH=/bin', 'FROM_IMAGE=yes'],
    user: '',
    workingDir: '',
    exposedPorts: [],
    volumes: [],
    stopSignal: '',
    labels: {},
    diffIds: [],
  },
  chainIds: [],
  notes: [],
};

/** A store with one image, whose files are in a directory, for tests of the runtime alone. Snapshots are overlays on the directory. */
export function directoryImages(directory: string, image: ImageRecord, files: string): OpenImageStore {
  const snapshotsDirectory = join(directory, 'snapshots');
  mkdirSync(snapshotsDirectory, { recursive: true });
  const rootOf = (key: string): RootFilesystem => ({
    mount: {
      type: 'overlay',
      directory: snapshotsDirectory,
      options: [`lowerdir=${files}`, `upperdir=${key}/upper`, `workdir=${key}/work`],
    },
  });
  const prepare = async ({ key }: { readonly key: string }) => {
    for (const name of ['upper', 'work']) mkdirSync(join(snapshotsDirectory, key, name), { recursive: true });
    return rootOf(key);
  };
  const denied = async () => {
    throw new OciError('Unsupported', 'the store has one image');
  };
  return {
    snapshotterNotes: [],
    images: {
      pull: denied,
      load: denied,
      tag: denied,
      status: (name) => ([image.id, ...image.repoTags, ...image.repoDigests].includes(name) ? image : undefined),
      list: () => [image],
      remove: async () => {},
      pin: async () => {},
      fsInfo: async () => ({ mountpoint: directory, usedBytes: 1, inodesUsed: 1 }),
      gc: async () => ({ freedBytes: 0, removedLayers: 0, removedBlobs: 0 }),
      close: async () => {},
    },
    snapshots: {
      kind: 'overlayfs',
      prepare,
      view: prepare,
      root: async (key) => rootOf(key),
      list: () => readdirSync(snapshotsDirectory).map((key): Snapshot => ({ key, image: image.id, kind: 'container' })),
      remove: async (key) => rmSync(join(snapshotsDirectory, key), { recursive: true, force: true }),
      usage: async () => ({ usedBytes: 0, inodesUsed: 0 }),
    },
  };
}
