import { randomUUID } from 'node:crypto';
import { truncate } from 'node:fs/promises';
import type { ControllerRpc } from '@oarlock/csi/csi-messages';
import type {
  CapacityRange,
  ControllerModifyVolumeRequest,
  CreateVolumeRequest,
  CsiVolume,
  Topology,
  VolumeContentSource,
} from '@oarlock/csi/csi-types';
import { GrpcError } from '@oarlock/grpc/grpc-error';
import type { Methods } from '@oarlock/grpc/unix-server';
import { createContent } from '../store/content.ts';
import { freeLoopDevice } from '../store/mounts.ts';
import type { StoredSnapshot, StoredVolume } from '../store/volume-store.ts';
import { attachService } from './attach-service.ts';
import { expandedSize, includesTopology, isInRange, isSameSource, newVolumeSize } from './internal/volume-properties.ts';
import { isBlock, page, required } from './requests.ts';
import type { ControllerOptions } from './service-options.ts';
import { snapshotService } from './snapshot-service.ts';

const baseCapabilities: readonly ControllerRpc[] = [
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

/** Returns the methods of the CSI controller service for volumes and snapshots and, if the driver attaches volumes, for attachments. */
export function controllerService(options: ControllerOptions): Methods {
  const service = new ControllerService(options);
  return {
    ...snapshotService(options.store, options.locks, options.now),
    ...(options.attach && attachService(options)),
    ControllerGetCapabilities: () => service.capabilities(),
    CreateVolume: (request: CreateVolumeRequest) => service.createVolume(request),
    DeleteVolume: ({ volumeId }: { readonly volumeId: string }) => service.deleteVolume(volumeId),
    ValidateVolumeCapabilities: (request: CreateVolumeRequest & { readonly volumeId: string }) => service.validateCapabilities(request),
    ListVolumes: ({ maxEntries, startingToken }: { readonly maxEntries: number; readonly startingToken: string }) =>
      service.listVolumes(maxEntries, startingToken),
    ControllerGetVolume: ({ volumeId }: { readonly volumeId: string }) => service.getVolume(volumeId),
    ControllerModifyVolume: (request: ControllerModifyVolumeRequest) => service.modifyVolume(request),
    GetCapacity: ({ accessibleTopology }: { readonly accessibleTopology?: Topology }) => service.capacity(accessibleTopology),
    ControllerExpandVolume: ({ volumeId, capacityRange }: { readonly volumeId: string; readonly capacityRange?: CapacityRange }) =>
      service.expandVolume(volumeId, capacityRange),
  };
}

class ControllerService {
  readonly #options: ControllerOptions;
  /** True if volumes are accessible from several nodes. */
  readonly #shared: boolean;

  constructor(options: ControllerOptions) {
    this.#options = options;
    this.#shared = options.topology === undefined;
  }

  capabilities(): object {
    const { attach, mutable } = this.#options;
    const capabilities: readonly ControllerRpc[] = [
      ...baseCapabilities,
      ...(attach ? (['PUBLISH_UNPUBLISH_VOLUME', 'PUBLISH_READONLY', 'LIST_VOLUMES_PUBLISHED_NODES'] as const) : []),
      ...(mutable.length > 0 ? (['MODIFY_VOLUME'] as const) : []),
    ];
    return { capabilities: capabilities.map((type) => ({ rpc: { type } })) };
  }

  createVolume(request: CreateVolumeRequest): Promise<object> {
    return this.#options.locks.run(required('name', request.name), async () => {
      const { name, capacityRange, volumeContentSource } = request;
      const mutable = this.#mutableParameters(request.mutableParameters);
      const block = isBlock(request.volumeCapabilities, this.#shared);
      const existing = this.#options.store.byName('volume', name) as StoredVolume | undefined;
      if (existing !== undefined) {
        if (existing.block !== block || !isInRange(existing.bytes, capacityRange) || !isSameSource(existing.source, volumeContentSource))
          throw new GrpcError('ALREADY_EXISTS', `a volume ${name} with other properties already exists`);
        return { volume: this.#message(existing) };
      }
      return { volume: this.#message(await this.#create(request, block, mutable)) };
    });
  }

  async #create(request: CreateVolumeRequest, block: boolean, mutable: Readonly<Record<string, string>>): Promise<StoredVolume> {
    const { store, topology } = this.#options;
    const { name, capacityRange, parameters = {}, volumeContentSource, accessibilityRequirements } = request;
    const source = this.#contentSource(volumeContentSource);
    if (source !== undefined && source.block !== block)
      throw new GrpcError('INVALID_ARGUMENT', 'a volume and its source have to be both block devices or both file systems');
    const bytes = newVolumeSize(capacityRange, source?.bytes);
    if (bytes > this.#freeBytes)
      throw new GrpcError('RESOURCE_EXHAUSTED', `${bytes} bytes are requested, but only ${this.#freeBytes} are free`);
    const { requisite = [] } = accessibilityRequirements ?? {};
    if (topology && requisite.length > 0 && !requisite.some((required) => includesTopology(topology, required)))
      throw new GrpcError('RESOURCE_EXHAUSTED', 'the volumes of this node are not accessible from the requested topology');
    const id = randomUUID();
    await createContent(store, id, { bytes, block, from: source?.id });
    const volume: StoredVolume = {
      kind: 'volume',
      id,
      name,
      bytes,
      block,
      parameters,
      ...(Object.keys(mutable).length > 0 && { mutable }),
      ...(volumeContentSource && source && { source: volumeContentSource }),
    };
    await store.put(volume);
    return volume;
  }

  deleteVolume(volumeId: string): Promise<object> {
    const { store, publications, locks } = this.#options;
    return locks.run(required('volume_id', volumeId), async () => {
      const volume = store.volume(volumeId);
      if (volume === undefined) return {};
      const [node] = Object.keys(volume.attached ?? {});
      if (node !== undefined) throw new GrpcError('FAILED_PRECONDITION', `the volume ${volumeId} is attached to ${node}`);
      const [publication] = await publications.list(volumeId);
      if (publication !== undefined)
        throw new GrpcError('FAILED_PRECONDITION', `the volume ${volumeId} is in use at ${publication.target}`);
      // a caller that staged the volume may have been killed before it unstaged it
      if (volume.block) await freeLoopDevice(store.content(volumeId));
      await store.remove(volume);
      return {};
    });
  }

  validateCapabilities({ volumeId, volumeCapabilities, parameters = {} }: CreateVolumeRequest & { readonly volumeId: string }): object {
    const { block } = this.#existing(required('volume_id', volumeId));
    if (volumeCapabilities.length === 0) throw new GrpcError('INVALID_ARGUMENT', 'volume_capabilities is missing');
    try {
      if (isBlock(volumeCapabilities, this.#shared) === block) return { confirmed: { volumeCapabilities, parameters, volumeContext: {} } };
    } catch (error) {
      return { message: (error as Error).message };
    }
    return { message: `the volume is ${block ? 'a block device' : 'a file system'}` };
  }

  listVolumes(maxEntries: number, startingToken: string): object {
    const { items, nextToken } = page(this.#options.store.volumes(), maxEntries, startingToken);
    return { entries: items.map((volume) => this.#entry(volume)), nextToken };
  }

  getVolume(volumeId: string): object {
    return this.#entry(this.#existing(required('volume_id', volumeId)));
  }

  modifyVolume({ volumeId, mutableParameters }: ControllerModifyVolumeRequest): Promise<object> {
    const { store, locks, mutable } = this.#options;
    return locks.run(required('volume_id', volumeId), async () => {
      if (mutable.length === 0) throw new GrpcError('UNIMPLEMENTED', 'volumes of this driver have no mutable parameters');
      const volume = this.#existing(volumeId);
      await store.put({ ...volume, mutable: { ...volume.mutable, ...this.#mutableParameters(mutableParameters) } });
      return {};
    });
  }

  capacity(accessibleTopology: Topology | undefined): object {
    const { topology } = this.#options;
    const isHere = accessibleTopology === undefined || !topology || includesTopology(topology, accessibleTopology);
    return { availableCapacity: isHere ? Math.max(0, this.#freeBytes) : 0 };
  }

  expandVolume(volumeId: string, capacityRange: CapacityRange | undefined): Promise<object> {
    const { store, locks, nodeExpansion } = this.#options;
    return locks.run(required('volume_id', volumeId), async () => {
      const volume = this.#existing(volumeId);
      if (capacityRange === undefined) throw new GrpcError('INVALID_ARGUMENT', 'capacity_range is missing');
      const bytes = expandedSize(capacityRange, volume.bytes);
      const added = bytes - volume.bytes;
      if (added > this.#freeBytes)
        throw new GrpcError('OUT_OF_RANGE', `${added} additional bytes are requested, but only ${this.#freeBytes} are free`);
      if (volume.block) await truncate(store.content(volumeId), bytes);
      if (bytes !== volume.bytes) await store.put({ ...volume, bytes });
      return { capacityBytes: bytes, nodeExpansionRequired: volume.block || nodeExpansion };
    });
  }

  get #freeBytes(): number {
    return this.#options.capacityBytes - this.#options.store.usedBytes;
  }

  /** Returns a volume. @throws GrpcError `NOT_FOUND` if the volume does not exist */
  #existing(id: string): StoredVolume {
    const volume = this.#options.store.volume(id);
    if (volume === undefined) throw new GrpcError('NOT_FOUND', `there is no volume ${id}`);
    return volume;
  }

  /** Returns the volume or snapshot whose content a new volume gets; undefined if none is requested. @throws GrpcError `NOT_FOUND` if it is missing */
  #contentSource(source: VolumeContentSource | undefined): StoredVolume | StoredSnapshot | undefined {
    if (source?.volume !== undefined) return this.#existing(required('volume_content_source.volume.volume_id', source.volume.volumeId));
    if (source?.snapshot === undefined) return undefined;
    const id = required('volume_content_source.snapshot.snapshot_id', source.snapshot.snapshotId);
    const snapshot = this.#options.store.snapshot(id);
    if (snapshot === undefined) throw new GrpcError('NOT_FOUND', `there is no snapshot ${id}`);
    return snapshot;
  }

  /** Validates the mutable parameters. @throws GrpcError `INVALID_ARGUMENT` if a parameter is not mutable */
  #mutableParameters(parameters: Readonly<Record<string, string>> = {}): Readonly<Record<string, string>> {
    const { mutable } = this.#options;
    const immutable = Object.keys(parameters).find((name) => !mutable.includes(name));
    if (immutable !== undefined)
      throw new GrpcError(
        'INVALID_ARGUMENT',
        `the parameter ${JSON.stringify(immutable)} is not mutable; mutable parameters: ${mutable.join(', ')}`,
      );
    return parameters;
  }

  #entry(volume: StoredVolume): object {
    return {
      volume: this.#message(volume),
      status: {
        publishedNodeIds: Object.keys(volume.attached ?? {}),
        volumeCondition: { abnormal: false, message: 'the volume is healthy' },
      },
    };
  }

  #message({ id, bytes, source }: StoredVolume): CsiVolume {
    const { topology } = this.#options;
    return {
      volumeId: id,
      capacityBytes: bytes,
      volumeContext: {},
      ...(topology && { accessibleTopology: [topology] }),
      ...(source && { contentSource: source }),
    };
  }
}
