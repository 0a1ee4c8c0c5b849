import { randomUUID } from 'node:crypto';
import type { CsiSnapshot } from '@oarlock/csi/csi-types';
import { GrpcError } from '@oarlock/grpc/grpc-error';
import type { Methods } from '@oarlock/grpc/unix-server';
import { copy } from './content.ts';
import type { OneAtATime } from './one-at-a-time.ts';
import { page, required } from './requests.ts';
import type { StoredSnapshot, VolumeStore } from './volume-store.ts';

/** The part of the controller service that takes copies of volumes. */
export function snapshotService(store: VolumeStore, turns: OneAtATime, now: () => number): Methods {
  return {
    CreateSnapshot: ({ sourceVolumeId, name }: { readonly sourceVolumeId: string; readonly name: string }) =>
      turns.run(required('name', name), async () => {
        required('source_volume_id', sourceVolumeId);
        const before = store.named('snapshot', name) as StoredSnapshot | undefined;
        if (before !== undefined && before.volumeId !== sourceVolumeId)
          throw new GrpcError('ALREADY_EXISTS', `the snapshot ${name} is one of another volume`);
        if (before !== undefined) return { snapshot: snapshotMessage(before) };
        const source = store.volume(sourceVolumeId);
        if (source === undefined) throw new GrpcError('NOT_FOUND', `there is no volume ${sourceVolumeId}`);
        const { bytes, block } = source;
        const id = randomUUID();
        await copy(store, sourceVolumeId, id);
        const snapshot: StoredSnapshot = {
          kind: 'snapshot',
          id,
          name,
          bytes,
          block,
          volumeId: sourceVolumeId,
          createdSeconds: Math.floor(now() / 1000),
        };
        await store.put(snapshot);
        return { snapshot: snapshotMessage(snapshot) };
      }),

    DeleteSnapshot: ({ snapshotId }: { readonly snapshotId: string }) =>
      turns.run(required('snapshot_id', snapshotId), async () => {
        const snapshot = store.snapshot(snapshotId);
        if (snapshot !== undefined) await store.remove(snapshot);
        return {};
      }),

    ListSnapshots: ({
      maxEntries,
      startingToken,
      sourceVolumeId,
      snapshotId,
    }: Readonly<Record<'startingToken' | 'sourceVolumeId' | 'snapshotId', string>> & { readonly maxEntries: number }) => {
      const wanted = store
        .snapshots()
        .filter(({ id, volumeId }) => (snapshotId === '' || id === snapshotId) && (sourceVolumeId === '' || volumeId === sourceVolumeId));
      const { items, nextToken } = page(wanted, maxEntries, startingToken);
      return { entries: items.map((snapshot) => ({ snapshot: snapshotMessage(snapshot) })), nextToken };
    },
  };
}

const snapshotMessage = ({ id, bytes, volumeId, createdSeconds }: StoredSnapshot): CsiSnapshot => ({
  snapshotId: id,
  sizeBytes: bytes,
  sourceVolumeId: volumeId,
  creationTime: { seconds: createdSeconds, nanos: 0 },
  readyToUse: true,
});
