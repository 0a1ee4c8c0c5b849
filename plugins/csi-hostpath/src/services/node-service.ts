import { mkdir, statfs } from 'node:fs/promises';
import type { NodeRpc } from '@oarlock/csi/csi-messages';
import type { ExpandVolumeRequest, NodePublishVolumeRequest, NodeStageVolumeRequest, VolumeCapability } from '@oarlock/csi/csi-types';
import { GrpcError } from '@oarlock/grpc/grpc-error';
import type { Methods } from '@oarlock/grpc/unix-server';
import { bindMount, freeLoopDevice, growLoopDevice, isMountPoint, loopDevice, unmount } from '../store/mounts.ts';
import type { StoredVolume } from '../store/volume-store.ts';
import { isBlock, required } from './requests.ts';
import type { NodeOptions } from './service-options.ts';

const serviceCapabilities: readonly NodeRpc[] = [
  'STAGE_UNSTAGE_VOLUME',
  'GET_VOLUME_STATS',
  'NODE_EXPAND_VOLUME',
  'NODE_VOLUME_CONDITION',
  'NODE_SINGLE_NODE_MULTI_WRITER',
];
/** The key in the volume context that the kubelet sets to `true` for inline volumes. */
const ephemeralKey = 'csi.storage.k8s.io/ephemeral';

/**
 * Returns the methods of the CSI node service. A volume that is a directory is bind-mounted; a volume that is a file is a block device behind a loop
 * device.
 */
export function nodeService(options: NodeOptions): Methods {
  const { nodeId, maxVolumes, topology } = options;
  const service = new NodeService(options);
  return {
    NodeGetInfo: () => ({ nodeId, maxVolumesPerNode: maxVolumes, ...(topology && { accessibleTopology: topology }) }),
    NodeGetCapabilities: () => ({ capabilities: serviceCapabilities.map((type) => ({ rpc: { type } })) }),
    NodeStageVolume: (request: NodeStageVolumeRequest) => service.stage(request),
    NodeUnstageVolume: (request: NodeStageVolumeRequest) => service.unstage(request),
    NodePublishVolume: (request: NodePublishVolumeRequest) => service.publish(request),
    NodeUnpublishVolume: (request: NodePublishVolumeRequest) => service.unpublish(request),
    NodeGetVolumeStats: (request: ExpandVolumeRequest) => service.stats(request),
    NodeExpandVolume: (request: ExpandVolumeRequest) => service.expand(request),
  };
}

class NodeService {
  readonly #options: NodeOptions;
  /** True if volumes are accessible from several nodes. */
  readonly #shared: boolean;

  constructor(options: NodeOptions) {
    this.#options = options;
    this.#shared = options.topology === undefined;
  }

  stage({ volumeId, stagingTargetPath, volumeCapability }: NodeStageVolumeRequest): Promise<object> {
    const { store, stagings, locks } = this.#options;
    return locks.run(required('volume_id', volumeId), async () => {
      required('staging_target_path', stagingTargetPath);
      const { block } = await this.#usable(volumeId, volumeCapability);
      if (await stagings.differs(volumeId, stagingTargetPath, volumeCapability))
        throw new GrpcError('ALREADY_EXISTS', `the volume ${volumeId} is staged at ${stagingTargetPath} with another capability`);
      await stagings.put(volumeId, stagingTargetPath, volumeCapability);
      // a directory needs no preparation
      if (block) await loopDevice(store.content(volumeId), { create: true });
      return {};
    });
  }

  unstage({ volumeId, stagingTargetPath }: NodeStageVolumeRequest): Promise<object> {
    const { store, stagings, locks } = this.#options;
    return locks.run(required('volume_id', volumeId), async () => {
      required('staging_target_path', stagingTargetPath);
      if ((await this.#find(volumeId))?.block === true) await freeLoopDevice(store.content(volumeId));
      await stagings.remove(volumeId);
      return {};
    });
  }

  publish(request: NodePublishVolumeRequest): Promise<object> {
    const { store, publications, locks } = this.#options;
    return locks.run(required('volume_id', request.volumeId), async () => {
      const { volumeId, stagingTargetPath, volumeCapability, readonly = false, volumeContext = {} } = request;
      const target = required('target_path', request.targetPath);
      if (volumeContext[ephemeralKey] === 'true') await this.#createEphemeral(volumeId);
      const { block, ephemeral = false } = await this.#usable(volumeId, volumeCapability);
      if (!ephemeral && stagingTargetPath === '')
        throw new GrpcError('FAILED_PRECONDITION', 'the volume has to be staged: staging_target_path is missing');
      const content = store.content(volumeId);
      const source = block ? await loopDevice(content, { create: false }) : content;
      if (source === undefined) throw new GrpcError('FAILED_PRECONDITION', `the volume ${volumeId} is not staged`);
      const mode = volumeCapability?.accessMode?.mode ?? '';
      await this.#checkPublications(volumeId, target, { readonly, mode });
      await publications.add(volumeId, { target, readonly, mode });
      const options = [...new Set([...(volumeCapability?.mount?.mountFlags ?? []), ...(readonly && !block ? ['ro'] : [])])];
      await bindMount(source, target, { file: block, options });
      return {};
    });
  }

  /**
   * Checks that the volume may be published at `target`. @throws GrpcError if the volume is already published there with another readonly flag, or at
   * another target although the access mode allows only one target
   */
  async #checkPublications(
    volumeId: string,
    target: string,
    { readonly, mode }: { readonly readonly: boolean; readonly mode: string },
  ): Promise<void> {
    const published = await this.#options.publications.list(volumeId);
    const existing = published.find((each) => each.target === target);
    if (existing !== undefined && existing.readonly !== readonly)
      throw new GrpcError(
        'ALREADY_EXISTS',
        `the volume ${volumeId} is already published at ${target}, ${existing.readonly ? 'read-only' : 'writable'}`,
      );
    const other = published.find((each) => each.target !== target);
    if (other !== undefined && mode === 'SINGLE_NODE_SINGLE_WRITER')
      throw new GrpcError(
        'FAILED_PRECONDITION',
        `the volume ${volumeId} is published at ${other.target}, and ${mode} allows only one target`,
      );
  }

  unpublish({ volumeId, targetPath }: NodePublishVolumeRequest): Promise<object> {
    const { store, publications, locks } = this.#options;
    return locks.run(required('volume_id', volumeId), async () => {
      await unmount(required('target_path', targetPath));
      await publications.remove(volumeId, targetPath);
      const volume = store.volume(volumeId);
      if (volume?.ephemeral === true) await store.remove(volume);
      return {};
    });
  }

  async stats({ volumeId, volumePath }: ExpandVolumeRequest): Promise<object> {
    required('volume_id', volumeId);
    const path = required('volume_path', volumePath);
    const volume = await this.#find(volumeId);
    if (volume === undefined || !(await isMountPoint(path))) throw new GrpcError('NOT_FOUND', `the volume ${volumeId} is not at ${path}`);
    const volumeCondition = { abnormal: false, message: 'the volume is healthy' };
    if (volume.block) return { usage: [{ unit: 'BYTES', total: volume.bytes }], volumeCondition };
    const { bsize, blocks, bfree, bavail, files, ffree } = await statfs(path);
    return {
      usage: [
        { unit: 'BYTES', total: bsize * blocks, available: bsize * bavail, used: bsize * (blocks - bfree) },
        { unit: 'INODES', total: files, available: ffree, used: files - ffree },
      ],
      volumeCondition,
    };
  }

  expand({ volumeId, volumePath, capacityRange = {} }: ExpandVolumeRequest): Promise<object> {
    const { store, locks } = this.#options;
    return locks.run(required('volume_id', volumeId), async () => {
      required('volume_path', volumePath);
      const volume = await this.#find(volumeId);
      if (volume === undefined) throw new GrpcError('NOT_FOUND', `there is no volume ${volumeId}`);
      const { requiredBytes = 0, limitBytes = 0 } = capacityRange;
      if (requiredBytes > volume.bytes || (limitBytes > 0 && limitBytes < volume.bytes))
        throw new GrpcError('OUT_OF_RANGE', `the volume ${volumeId} has ${volume.bytes} bytes: call ControllerExpandVolume first`);
      if (volume.block) await growLoopDevice(store.content(volumeId));
      return { capacityBytes: volume.bytes };
    });
  }

  /** Returns a volume; undefined if it does not exist. Reads shared volumes from disk, because the controller runs in another process. */
  async #find(id: string): Promise<StoredVolume | undefined> {
    const { store } = this.#options;
    return this.#shared ? store.readVolume(id) : store.volume(id);
  }

  /**
   * Returns a volume that this node can use with the capability.
   * @throws GrpcError if the volume does not exist, is not attached to this node or does not have the capability
   */
  async #usable(id: string, capability: VolumeCapability | undefined): Promise<StoredVolume> {
    const { attach, nodeId } = this.#options;
    if (capability === undefined) throw new GrpcError('INVALID_ARGUMENT', 'volume_capability is missing');
    const block = isBlock([capability], this.#shared);
    const volume = await this.#find(id);
    if (volume === undefined) throw new GrpcError('NOT_FOUND', `there is no volume ${id}`);
    if (volume.block !== block)
      throw new GrpcError('INVALID_ARGUMENT', `the volume is ${volume.block ? 'a block device' : 'a file system'}`);
    if (attach && volume.ephemeral !== true && volume.attached?.[nodeId] === undefined)
      throw new GrpcError('FAILED_PRECONDITION', `the volume ${id} is not attached to ${nodeId}`);
    return volume;
  }

  /** Creates the inline volume of a pod if it does not exist. NodeUnpublishVolume deletes the volume. */
  async #createEphemeral(id: string): Promise<void> {
    const { store } = this.#options;
    if (store.volume(id) !== undefined) return;
    const volume: StoredVolume = { kind: 'volume', id, name: id, bytes: 0, block: false, parameters: {}, ephemeral: true };
    await mkdir(store.content(id), { recursive: true, mode: 0o777 });
    await store.put(volume);
  }
}
