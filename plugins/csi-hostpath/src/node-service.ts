import { statfs } from 'node:fs/promises';
import type { NodeRpc } from '@oarlock/csi/csi-messages';
import type { ExpandRequest, PublishRequest, StageRequest, Topology, VolumeCapability } from '@oarlock/csi/csi-types';
import { GrpcError } from '@oarlock/grpc/grpc-error';
import type { Methods } from '@oarlock/grpc/unix-server';
import { freeLoopDevice, growLoopDevice, hide, isThere, loopDevice, show } from './mounts.ts';
import { OneAtATime } from './one-at-a-time.ts';
import { isBlock, required } from './requests.ts';
import type { StoredVolume, VolumeStore } from './volume-store.ts';

export interface NodeOptions {
  readonly store: VolumeStore;
  readonly nodeId: string;
  readonly topology: Topology;
}

const abilities: readonly NodeRpc[] = ['STAGE_UNSTAGE_VOLUME', 'GET_VOLUME_STATS', 'NODE_EXPAND_VOLUME', 'NODE_SINGLE_NODE_MULTI_WRITER'];
/** As many as anybody wants. */
const maxVolumes = 0;

/** The node service of CSI: directories are shown where they are wanted, and files are block devices by way of a loop device. */
export function nodeService({ store, nodeId, topology }: NodeOptions): Methods {
  const turns = new OneAtATime();
  const known = (id: string, capability: VolumeCapability | undefined): StoredVolume => {
    if (capability === undefined) throw new GrpcError('INVALID_ARGUMENT', 'volume_capability is missing');
    const block = isBlock([capability]);
    const volume = store.volume(id);
    if (volume === undefined) throw new GrpcError('NOT_FOUND', `there is no volume ${id}`);
    if (volume.block !== block)
      throw new GrpcError('INVALID_ARGUMENT', `the volume is ${volume.block ? 'a block device' : 'a file system'}`);
    return volume;
  };

  return {
    NodeGetInfo: () => ({ nodeId, maxVolumesPerNode: maxVolumes, accessibleTopology: topology }),
    NodeGetCapabilities: () => ({ capabilities: abilities.map((type) => ({ rpc: { type } })) }),

    NodeStageVolume: ({ volumeId, stagingTargetPath, volumeCapability }: StageRequest) =>
      turns.run(required('volume_id', volumeId), async () => {
        required('staging_target_path', stagingTargetPath);
        const { block } = known(volumeId, volumeCapability);
        // a directory needs nothing before it is shown
        if (block) await loopDevice(store.content(volumeId), { make: true });
        return {};
      }),

    NodeUnstageVolume: ({ volumeId, stagingTargetPath }: StageRequest) =>
      turns.run(required('volume_id', volumeId), async () => {
        required('staging_target_path', stagingTargetPath);
        if (store.volume(volumeId)?.block === true) await freeLoopDevice(store.content(volumeId));
        return {};
      }),

    NodePublishVolume: ({ volumeId, stagingTargetPath, targetPath, volumeCapability, readonly = false }: PublishRequest) =>
      turns.run(required('volume_id', volumeId), async () => {
        required('target_path', targetPath);
        const { block } = known(volumeId, volumeCapability);
        if (stagingTargetPath === '')
          throw new GrpcError('FAILED_PRECONDITION', 'the volume has to be staged: staging_target_path is missing');
        const content = store.content(volumeId);
        const source = block ? await loopDevice(content, { make: false }) : content;
        if (source === undefined) throw new GrpcError('FAILED_PRECONDITION', `the volume ${volumeId} is not staged`);
        await show(source, targetPath, { file: block, readonly });
        return {};
      }),

    NodeUnpublishVolume: ({ volumeId, targetPath }: PublishRequest) =>
      turns.run(required('volume_id', volumeId), async () => {
        await hide(required('target_path', targetPath));
        return {};
      }),

    NodeGetVolumeStats: async ({ volumeId, volumePath }: ExpandRequest) => {
      required('volume_id', volumeId);
      const path = required('volume_path', volumePath);
      const volume = store.volume(volumeId);
      if (volume === undefined || !(await isThere(path))) throw new GrpcError('NOT_FOUND', `the volume ${volumeId} is not at ${path}`);
      if (volume.block) return { usage: [{ unit: 'BYTES', total: volume.bytes }] };
      const { bsize, blocks, bavail, files, ffree } = await statfs(path);
      return {
        usage: [
          { unit: 'BYTES', total: bsize * blocks, available: bsize * bavail, used: bsize * (blocks - bavail) },
          { unit: 'INODES', total: files, available: ffree, used: files - ffree },
        ],
      };
    },

    NodeExpandVolume: ({ volumeId, volumePath }: ExpandRequest) =>
      turns.run(required('volume_id', volumeId), async () => {
        required('volume_path', volumePath);
        const volume = store.volume(volumeId);
        if (volume === undefined) throw new GrpcError('NOT_FOUND', `there is no volume ${volumeId}`);
        if (volume.block) await growLoopDevice(store.content(volumeId));
        return { capacityBytes: volume.bytes };
      }),
  };
}
