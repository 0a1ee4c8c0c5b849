import { randomUUID } from 'node:crypto';
import { truncate } from 'node:fs/promises';
import type { ControllerRpc } from '@oarlock/csi/csi-messages';
import type { CapacityRange, ContentSource, CreateVolumeRequest, CsiVolume, ModifyRequest, Topology } from '@oarlock/csi/csi-types';
import { GrpcError } from '@oarlock/grpc/grpc-error';
import type { Methods } from '@oarlock/grpc/unix-server';
import { attachService } from './attach-service.ts';
import { fill } from './content.ts';
import type { OneAtATime } from './one-at-a-time.ts';
import { freeLoopDevice } from './mounts.ts';
import type { Publications } from './publications.ts';
import { isBlock, page, required } from './requests.ts';
import { snapshotService } from './snapshot-service.ts';
import type { StoredSnapshot, StoredVolume, VolumeStore } from './volume-store.ts';

export interface ControllerOptions {
  readonly store: VolumeStore;
  readonly publications: Publications;
  readonly nodeId: string;
  /** Where its volumes can be reached; undefined: everywhere. */
  readonly topology: Topology | undefined;
  /** Whether volumes have to be attached to a node before they are used there. */
  readonly attach: boolean;
  /** Whether directories have to be grown on the node, too. */
  readonly nodeExpansion: boolean;
  /** Names of parameters that can be changed later. */
  readonly mutable: readonly string[];
  /** How many volumes a node may have attached; 0: any number. */
  readonly maxVolumes: number;
  /** What all volumes together may be promised. Bytes. */
  readonly capacityBytes: number;
  readonly turns: OneAtATime;
  now(): number;
}

const abilities: readonly ControllerRpc[] = [
  'CREATE_DELETE_VOLUME',
  'LIST_VOLUMES',
  'GET_VOLUME',
  'GET_CAPACITY',
  'CREATE_DELETE_SNAPSHOT',
  'LIST_SNAPSHOTS',
  'CLONE_VOLUME',
  'CONTROLLER_EXPAND_VOLUME',
  'CONTROLLER_VOLUME_CONDITION',
  'CONTROLLER_SINGLE_NODE_MULTI_WRITER',
];
const defaultBytes = 1 << 30;

/** The controller service of CSI: what there is, how large it is and what it was made from. */
export function controllerService(options: ControllerOptions): Methods {
  const { store, publications, topology, capacityBytes, now, attach, mutable, nodeExpansion, turns } = options;
  const shared = topology === undefined;
  const free = () => capacityBytes - store.usedBytes;
  const volumeMessage = ({ id, bytes, source }: StoredVolume): CsiVolume => ({
    volumeId: id,
    capacityBytes: bytes,
    volumeContext: {},
    ...(topology && { accessibleTopology: [topology] }),
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
  const entry = (volume: StoredVolume) => ({
    volume: volumeMessage(volume),
    status: {
      publishedNodeIds: Object.keys(volume.attached ?? {}),
      volumeCondition: { abnormal: false, message: 'it is as it should be' },
    },
  });
  const knownParameters = (given: Readonly<Record<string, string>> = {}) => {
    const unknown = Object.keys(given).find((name) => !mutable.includes(name));
    if (unknown !== undefined)
      throw new GrpcError(
        'INVALID_ARGUMENT',
        `the parameter ${JSON.stringify(unknown)} cannot be changed; these can: ${mutable.join(', ')}`,
      );
    return given;
  };
  const all: readonly ControllerRpc[] = [
    ...abilities,
    ...(attach ? (['PUBLISH_UNPUBLISH_VOLUME', 'PUBLISH_READONLY', 'LIST_VOLUMES_PUBLISHED_NODES'] as const) : []),
    ...(mutable.length > 0 ? (['MODIFY_VOLUME'] as const) : []),
  ];

  return {
    ...snapshotService(store, turns, now),
    ...(attach && attachService(options, turns)),
    ControllerGetCapabilities: () => ({ capabilities: all.map((type) => ({ rpc: { type } })) }),

    CreateVolume: (request: CreateVolumeRequest) =>
      turns.run(required('name', request.name), async () => {
        const { name, capacityRange, parameters = {}, volumeContentSource, accessibilityRequirements } = request;
        const changeable = knownParameters(request.mutableParameters);
        const block = isBlock(request.volumeCapabilities, shared);
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
        if (topology && requisite.length > 0 && !requisite.some((one) => includes(topology, one)))
          throw new GrpcError('RESOURCE_EXHAUSTED', 'volumes of this node are not accessible where they are asked for');
        const id = randomUUID();
        await fill(store, id, { bytes, block, from: from?.id });
        const volume: StoredVolume = {
          kind: 'volume',
          id,
          name,
          bytes,
          block,
          parameters,
          ...(Object.keys(changeable).length > 0 && { mutable: changeable }),
          ...(volumeContentSource && from && { source: volumeContentSource }),
        };
        await store.put(volume);
        return { volume: volumeMessage(volume) };
      }),

    DeleteVolume: ({ volumeId }: { readonly volumeId: string }) =>
      turns.run(required('volume_id', volumeId), async () => {
        const volume = store.volume(volumeId);
        if (volume === undefined) return {};
        const [node] = Object.keys(volume.attached ?? {});
        if (node !== undefined) throw new GrpcError('FAILED_PRECONDITION', `the volume ${volumeId} is attached to ${node}`);
        const [publication] = await publications.of(volumeId);
        if (publication !== undefined)
          throw new GrpcError('FAILED_PRECONDITION', `the volume ${volumeId} is in use at ${publication.target}`);
        // whoever staged it may have been killed
        if (volume.block) await freeLoopDevice(store.content(volumeId));
        await store.remove(volume);
        return {};
      }),

    ValidateVolumeCapabilities: ({ volumeId, ...request }: CreateVolumeRequest & { readonly volumeId: string }) => {
      const { block } = known(required('volume_id', volumeId));
      const { volumeCapabilities, parameters = {} } = request;
      if (volumeCapabilities.length === 0) throw new GrpcError('INVALID_ARGUMENT', 'volume_capabilities is missing');
      try {
        if (isBlock(volumeCapabilities, shared) === block) return { confirmed: { volumeCapabilities, parameters, volumeContext: {} } };
      } catch (error) {
        return { message: (error as Error).message };
      }
      return { message: `the volume is ${block ? 'a block device' : 'a file system'}` };
    },

    ListVolumes: ({ maxEntries, startingToken }: { readonly maxEntries: number; readonly startingToken: string }) => {
      const { items, nextToken } = page(store.volumes(), maxEntries, startingToken);
      return { entries: items.map(entry), nextToken };
    },

    ControllerGetVolume: ({ volumeId }: { readonly volumeId: string }) => entry(known(required('volume_id', volumeId))),

    ControllerModifyVolume: ({ volumeId, mutableParameters }: ModifyRequest) =>
      turns.run(required('volume_id', volumeId), async () => {
        if (mutable.length === 0) throw new GrpcError('UNIMPLEMENTED', 'nothing about volumes of this driver can be changed');
        const volume = known(volumeId);
        await store.put({ ...volume, mutable: { ...volume.mutable, ...knownParameters(mutableParameters) } });
        return {};
      }),

    GetCapacity: ({ accessibleTopology }: { readonly accessibleTopology?: Topology }) => ({
      availableCapacity: accessibleTopology === undefined || !topology || includes(topology, accessibleTopology) ? Math.max(0, free()) : 0,
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
        return { capacityBytes: bytes, nodeExpansionRequired: volume.block || nodeExpansion };
      }),
  };
}

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
