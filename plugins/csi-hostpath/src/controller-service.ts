import { randomUUID } from 'node:crypto';
import { cp, mkdir, open, truncate } from 'node:fs/promises';
import type { ControllerRpc } from '@oarlock/csi/csi-messages';
import type { CapacityRange, ContentSource, CreateVolumeRequest, CsiSnapshot, CsiVolume, Topology } from '@oarlock/csi/csi-types';
import { GrpcError } from '@oarlock/grpc/grpc-error';
import type { Methods } from '@oarlock/grpc/unix-server';
import { OneAtATime } from './one-at-a-time.ts';
import { isBlock, page, required } from './requests.ts';
import type { StoredSnapshot, StoredVolume, VolumeStore } from './volume-store.ts';

export interface ControllerOptions {
  readonly store: VolumeStore;
  readonly topology: Topology;
  /** What all volumes together may be promised. Bytes. */
  readonly capacityBytes: number;
  now(): number;
}

const abilities: readonly ControllerRpc[] = [
  'CREATE_DELETE_VOLUME',
  'LIST_VOLUMES',
  'GET_CAPACITY',
  'CREATE_DELETE_SNAPSHOT',
  'LIST_SNAPSHOTS',
  'CLONE_VOLUME',
  'CONTROLLER_EXPAND_VOLUME',
  'CONTROLLER_SINGLE_NODE_MULTI_WRITER',
];
const defaultBytes = 1 << 30;

/** The controller service of CSI: what there is, how large it is and what it was made from. */
export function controllerService({ store, topology, capacityBytes, now }: ControllerOptions): Methods {
  const turns = new OneAtATime();
  const free = () => capacityBytes - store.usedBytes;
  const volumeMessage = ({ id, bytes, source }: StoredVolume): CsiVolume => ({
    volumeId: id,
    capacityBytes: bytes,
    volumeContext: {},
    accessibleTopology: [topology],
    ...(source && { contentSource: source }),
  });
  const known = (id: string): StoredVolume => {
    const volume = store.volume(id);
    if (volume === undefined) throw new GrpcError('NOT_FOUND', `there is no volume ${id}`);
    return volume;
  };
  /** What a new volume is filled from. */
  const origin = (source: ContentSource | undefined): StoredVolume | StoredSnapshot | undefined => {
    if (source?.volume !== undefined) return known(required('volume_content_source.volume.volume_id', source.volume.volumeId));
    if (source?.snapshot === undefined) return undefined;
    const id = required('volume_content_source.snapshot.snapshot_id', source.snapshot.snapshotId);
    const snapshot = store.snapshot(id);
    if (snapshot === undefined) throw new GrpcError('NOT_FOUND', `there is no snapshot ${id}`);
    return snapshot;
  };
  const fill = async (id: string, bytes: number, block: boolean, from: StoredVolume | StoredSnapshot | undefined) => {
    const content = store.content(id);
    if (from !== undefined) await cp(store.content(from.id), content, { recursive: true, preserveTimestamps: true, mode: copyOnWrite });
    else if (block) await (await open(content, 'wx', 0o600)).close();
    // whoever runs in the pod decides what it may write
    else await mkdir(content, { mode: 0o777 });
    if (block) await truncate(content, bytes);
  };

  return {
    ControllerGetCapabilities: () => ({ capabilities: abilities.map((type) => ({ rpc: { type } })) }),

    CreateVolume: (request: CreateVolumeRequest) =>
      turns.run(required('name', request.name), async () => {
        const { name, capacityRange, parameters = {}, volumeContentSource, accessibilityRequirements } = request;
        const block = isBlock(request.volumeCapabilities);
        const before = store.named('volume', name) as StoredVolume | undefined;
        if (before !== undefined) {
          if (before.block !== block || !fits(before.bytes, capacityRange) || !sameSource(before.source, volumeContentSource))
            throw new GrpcError('ALREADY_EXISTS', `a volume ${name} that is not like this exists already`);
          return { volume: volumeMessage(before) };
        }
        const from = origin(volumeContentSource);
        if (from !== undefined && from.block !== block)
          throw new GrpcError('INVALID_ARGUMENT', 'a block device and a file system are not copied to each other');
        const bytes = sizeOf(capacityRange, from?.bytes);
        if (bytes > free()) throw new GrpcError('RESOURCE_EXHAUSTED', `${bytes} bytes are asked for and ${free()} are free`);
        const { requisite = [] } = accessibilityRequirements ?? {};
        if (requisite.length > 0 && !requisite.some((one) => includes(topology, one)))
          throw new GrpcError('RESOURCE_EXHAUSTED', 'volumes of this node are not accessible where they are asked for');
        const id = randomUUID();
        await fill(id, bytes, block, from);
        const volume: StoredVolume = {
          kind: 'volume',
          id,
          name,
          bytes,
          block,
          parameters,
          ...(volumeContentSource && from && { source: volumeContentSource }),
        };
        await store.put(volume);
        return { volume: volumeMessage(volume) };
      }),

    DeleteVolume: ({ volumeId }: { readonly volumeId: string }) =>
      turns.run(required('volume_id', volumeId), async () => {
        const volume = store.volume(volumeId);
        if (volume !== undefined) await store.remove(volume);
        return {};
      }),

    ValidateVolumeCapabilities: ({ volumeId, ...request }: CreateVolumeRequest & { readonly volumeId: string }) => {
      const { block } = known(required('volume_id', volumeId));
      const { volumeCapabilities, parameters = {} } = request;
      if (volumeCapabilities.length === 0) throw new GrpcError('INVALID_ARGUMENT', 'volume_capabilities is missing');
      try {
        if (isBlock(volumeCapabilities) === block) return { confirmed: { volumeCapabilities, parameters, volumeContext: {} } };
      } catch (error) {
        return { message: (error as Error).message };
      }
      return { message: `the volume is ${block ? 'a block device' : 'a file system'}` };
    },

    ListVolumes: ({ maxEntries, startingToken }: { readonly maxEntries: number; readonly startingToken: string }) => {
      const { items, nextToken } = page(store.volumes(), maxEntries, startingToken);
      return { entries: items.map((volume) => ({ volume: volumeMessage(volume) })), nextToken };
    },

    GetCapacity: ({ accessibleTopology }: { readonly accessibleTopology?: Topology }) => ({
      availableCapacity: accessibleTopology === undefined || includes(topology, accessibleTopology) ? Math.max(0, free()) : 0,
    }),

    ControllerExpandVolume: ({ volumeId, capacityRange }: { readonly volumeId: string; readonly capacityRange?: CapacityRange }) =>
      turns.run(required('volume_id', volumeId), async () => {
        const volume = known(volumeId);
        if (capacityRange === undefined) throw new GrpcError('INVALID_ARGUMENT', 'capacity_range is missing');
        const bytes = Math.max(volume.bytes, sizeOf(capacityRange, volume.bytes));
        if (bytes - volume.bytes > free())
          throw new GrpcError('OUT_OF_RANGE', `${bytes - volume.bytes} bytes more are asked for and ${free()} are free`);
        if (volume.block) await truncate(store.content(volumeId), bytes);
        if (bytes !== volume.bytes) await store.put({ ...volume, bytes });
        return { capacityBytes: bytes, nodeExpansionRequired: volume.block };
      }),

    CreateSnapshot: ({ sourceVolumeId, name }: { readonly sourceVolumeId: string; readonly name: string }) =>
      turns.run(required('name', name), async () => {
        required('source_volume_id', sourceVolumeId);
        const before = store.named('snapshot', name) as StoredSnapshot | undefined;
        if (before !== undefined && before.volumeId !== sourceVolumeId)
          throw new GrpcError('ALREADY_EXISTS', `the snapshot ${name} is one of another volume`);
        if (before !== undefined) return { snapshot: snapshotMessage(before) };
        const { bytes, block } = known(sourceVolumeId);
        const id = randomUUID();
        await cp(store.content(sourceVolumeId), store.content(id), { recursive: true, preserveTimestamps: true, mode: copyOnWrite });
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

/** `COPYFILE_FICLONE`: shares blocks where the file system can. */
const copyOnWrite = 2;

const snapshotMessage = ({ id, bytes, volumeId, createdSeconds }: StoredSnapshot): CsiSnapshot => ({
  snapshotId: id,
  sizeBytes: bytes,
  sourceVolumeId: volumeId,
  creationTime: { seconds: createdSeconds, nanos: 0 },
  readyToUse: true,
});

/** @throws GrpcError `OUT_OF_RANGE` for a range that nothing is in */
function sizeOf({ requiredBytes = 0, limitBytes = 0 }: CapacityRange = {}, atLeast = 0): number {
  if (requiredBytes < 0 || limitBytes < 0) throw new GrpcError('INVALID_ARGUMENT', 'capacity_range has a negative number of bytes');
  const bytes = Math.max(
    atLeast,
    requiredBytes > 0 ? requiredBytes : atLeast > 0 ? atLeast : limitBytes > 0 ? Math.min(limitBytes, defaultBytes) : defaultBytes,
  );
  if (limitBytes > 0 && bytes > limitBytes)
    throw new GrpcError('OUT_OF_RANGE', `at least ${bytes} bytes are needed and at most ${limitBytes} are wanted`);
  return bytes;
}

const fits = (bytes: number, { requiredBytes = 0, limitBytes = 0 }: CapacityRange = {}) =>
  bytes >= requiredBytes && (limitBytes === 0 || bytes <= limitBytes);
const sameSource = (one: ContentSource | undefined, other: ContentSource | undefined) =>
  one?.snapshot?.snapshotId === other?.snapshot?.snapshotId && one?.volume?.volumeId === other?.volume?.volumeId;
const includes = (whole: Topology, part: Topology) => Object.entries(part.segments).every(([key, value]) => whole.segments[key] === value);
