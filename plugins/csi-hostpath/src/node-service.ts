import { mkdir, statfs } from 'node:fs/promises';
import type { NodeRpc } from '@oarlock/csi/csi-messages';
import type { ExpandRequest, PublishRequest, StageRequest, Topology, VolumeCapability } from '@oarlock/csi/csi-types';
import { GrpcError } from '@oarlock/grpc/grpc-error';
import type { Methods } from '@oarlock/grpc/unix-server';
import { freeLoopDevice, growLoopDevice, hide, isThere, loopDevice, show } from './mounts.ts';
import type { OneAtATime } from './one-at-a-time.ts';
import type { Publications } from './publications.ts';
import { isBlock, required } from './requests.ts';
import type { Stagings } from './stagings.ts';
import type { StoredVolume, VolumeStore } from './volume-store.ts';

export interface NodeOptions {
  readonly store: VolumeStore;
  readonly publications: Publications;
  readonly stagings: Stagings;
  readonly turns: OneAtATime;
  readonly nodeId: string;
  /** Where its volumes can be reached; undefined: everywhere. */
  readonly topology: Topology | undefined;
  readonly attach: boolean;
  /** How many volumes the node takes; 0: any number. */
  readonly maxVolumes: number;
}

const abilities: readonly NodeRpc[] = [
  'STAGE_UNSTAGE_VOLUME',
  'GET_VOLUME_STATS',
  'NODE_EXPAND_VOLUME',
  'NODE_VOLUME_CONDITION',
  'NODE_SINGLE_NODE_MULTI_WRITER',
];
/** What a kubelet says of a volume that is in a pod's own spec, and its size: `size: 10Mi`. */
const ephemeralKey = 'csi.storage.k8s.io/ephemeral';

/** The node service of CSI: directories are shown where they are wanted, and files are block devices by way of a loop device. */
export function nodeService({ store, publications, stagings, turns, nodeId, topology, attach, maxVolumes }: NodeOptions): Methods {
  const shared = topology === undefined;
  const find = async (id: string) => (shared ? store.fresh(id) : store.volume(id));
  const known = async (id: string, capability: VolumeCapability | undefined): Promise<StoredVolume> => {
    if (capability === undefined) throw new GrpcError('INVALID_ARGUMENT', 'volume_capability is missing');
    const block = isBlock([capability], shared);
    const volume = await find(id);
    if (volume === undefined) throw new GrpcError('NOT_FOUND', `there is no volume ${id}`);
    if (volume.block !== block)
      throw new GrpcError('INVALID_ARGUMENT', `the volume is ${volume.block ? 'a block device' : 'a file system'}`);
    if (attach && volume.ephemeral !== true && volume.attached?.[nodeId] === undefined)
      throw new GrpcError('FAILED_PRECONDITION', `the volume ${id} is not attached to ${nodeId}`);
    return volume;
  };
  /** A volume for one pod, as long as it is published. */
  const ephemeral = async (id: string): Promise<StoredVolume> => {
    const before = store.volume(id);
    if (before !== undefined) return before;
    const volume: StoredVolume = { kind: 'volume', id, name: id, bytes: 0, block: false, parameters: {}, ephemeral: true };
    await mkdir(store.content(id), { recursive: true, mode: 0o777 });
    await store.put(volume);
    return volume;
  };

  return {
    NodeGetInfo: () => ({ nodeId, maxVolumesPerNode: maxVolumes, ...(topology && { accessibleTopology: topology }) }),
    NodeGetCapabilities: () => ({ capabilities: abilities.map((type) => ({ rpc: { type } })) }),

    NodeStageVolume: ({ volumeId, stagingTargetPath, volumeCapability }: StageRequest) =>
      turns.run(required('volume_id', volumeId), async () => {
        required('staging_target_path', stagingTargetPath);
        const { block } = await known(volumeId, volumeCapability);
        if (await stagings.differs(volumeId, stagingTargetPath, volumeCapability))
          throw new GrpcError('ALREADY_EXISTS', `the volume ${volumeId} is staged at ${stagingTargetPath} in another way`);
        await stagings.put(volumeId, stagingTargetPath, volumeCapability);
        // a directory needs nothing before it is shown
        if (block) await loopDevice(store.content(volumeId), { make: true });
        return {};
      }),

    NodeUnstageVolume: ({ volumeId, stagingTargetPath }: StageRequest) =>
      turns.run(required('volume_id', volumeId), async () => {
        required('staging_target_path', stagingTargetPath);
        if ((await find(volumeId))?.block === true) await freeLoopDevice(store.content(volumeId));
        await stagings.remove(volumeId);
        return {};
      }),

    NodePublishVolume: (request: PublishRequest) =>
      turns.run(required('volume_id', request.volumeId), async () => {
        const { volumeId, stagingTargetPath, volumeCapability, readonly = false, volumeContext = {} } = request;
        const target = required('target_path', request.targetPath);
        if (volumeContext[ephemeralKey] === 'true') await ephemeral(request.volumeId);
        const { block, ephemeral: forPod = false } = await known(volumeId, volumeCapability);
        if (!forPod && stagingTargetPath === '')
          throw new GrpcError('FAILED_PRECONDITION', 'the volume has to be staged: staging_target_path is missing');
        const content = store.content(volumeId);
        const source = block ? await loopDevice(content, { make: false }) : content;
        if (source === undefined) throw new GrpcError('FAILED_PRECONDITION', `the volume ${volumeId} is not staged`);
        const mode = volumeCapability?.accessMode?.mode ?? '';
        const published = await publications.of(volumeId);
        const before = published.find((each) => each.target === target);
        if (before !== undefined && before.readonly !== readonly)
          throw new GrpcError(
            'ALREADY_EXISTS',
            `the volume ${volumeId} is at ${target} already, and ${before.readonly ? 'read-only' : 'writable'}`,
          );
        const other = published.find((each) => each.target !== target);
        if (other !== undefined && mode === 'SINGLE_NODE_SINGLE_WRITER')
          throw new GrpcError('FAILED_PRECONDITION', `the volume ${volumeId} is at ${other.target}, and ${mode} lets it be at one place`);
        await publications.add(volumeId, { target, readonly, mode });
        const options = [...new Set([...(volumeCapability?.mount?.mountFlags ?? []), ...(readonly && !block ? ['ro'] : [])])];
        await show(source, target, { file: block, options });
        return {};
      }),

    NodeUnpublishVolume: ({ volumeId, targetPath }: PublishRequest) =>
      turns.run(required('volume_id', volumeId), async () => {
        await hide(required('target_path', targetPath));
        await publications.remove(volumeId, targetPath);
        const volume = store.volume(volumeId);
        if (volume?.ephemeral === true) await store.remove(volume);
        return {};
      }),

    NodeGetVolumeStats: async ({ volumeId, volumePath }: ExpandRequest) => {
      required('volume_id', volumeId);
      const path = required('volume_path', volumePath);
      const volume = await find(volumeId);
      if (volume === undefined || !(await isThere(path))) throw new GrpcError('NOT_FOUND', `the volume ${volumeId} is not at ${path}`);
      const volumeCondition = { abnormal: false, message: 'it is as it should be' };
      if (volume.block) return { usage: [{ unit: 'BYTES', total: volume.bytes }], volumeCondition };
      const { bsize, blocks, bfree, bavail, files, ffree } = await statfs(path);
      return {
        usage: [
          { unit: 'BYTES', total: bsize * blocks, available: bsize * bavail, used: bsize * (blocks - bfree) },
          { unit: 'INODES', total: files, available: ffree, used: files - ffree },
        ],
        volumeCondition,
      };
    },

    NodeExpandVolume: ({ volumeId, volumePath, capacityRange = {} }: ExpandRequest) =>
      turns.run(required('volume_id', volumeId), async () => {
        required('volume_path', volumePath);
        const volume = await find(volumeId);
        if (volume === undefined) throw new GrpcError('NOT_FOUND', `there is no volume ${volumeId}`);
        const { requiredBytes = 0, limitBytes = 0 } = capacityRange;
        if (requiredBytes > volume.bytes || (limitBytes > 0 && limitBytes < volume.bytes))
          throw new GrpcError(
            'OUT_OF_RANGE',
            `the volume ${volumeId} has ${volume.bytes} bytes: its controller has not made it another size`,
          );
        if (volume.block) await growLoopDevice(store.content(volumeId));
        return { capacityBytes: volume.bytes };
      }),
  };
}
