import { randomUUID } from 'node:crypto';
import type { CsiSnapshot } from '@oarlock/csi/csi-types';
import { GrpcError } from '@oarlock/grpc/grpc-error';
import type { Methods } from '@oarlock/grpc/unix-server';
import { copy } from '../store/content.ts';
import type { VolumeLocks } from './volume-locks.ts';
import { page, required } from './requests.ts';
import type { StoredSnapshot, VolumeStore } from '../store/volume-store.ts';

/** Returns the methods of the CSI controller service for snapshots. A snapshot is a copy of a volume. */
export function snapshotService(store: VolumeStore, locks: VolumeLocks, now: () => number): Methods {
  return {
    CreateSnapshot: ({ sourceVolumeId, name }: { readonly sourceVolumeId: string; readonly name: string }) =>
      locks.run(required('name', name), async () => {
        required('source_volume_id', sourceVolumeId);
        const existing = store.byName('snapshot', name) as StoredSnapshot | undefined;
        if (existing !== undefined && existing.volumeId !== sourceVolumeId)
          throw new GrpcError('ALREADY_EXISTS', `a snapshot ${name} of another volume already exists`);
        if (existing !== undefined) return { snapshot: snapshotMessage(existing) };
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
      locks.run(required('snapshot_id', snapshotId), async () => {
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
      const matching = store
        .snapshots()
        .filter(({ id, volumeId }) => (snapshotId === '' || id === snapshotId) && (sourceVolumeId === '' || volumeId === sourceVolumeId));
      const { items, nextToken } = page(matching, maxEntries, startingToken);
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
