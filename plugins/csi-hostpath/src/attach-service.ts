import type { ControllerPublishRequest } from '@oarlock/csi/csi-types';
import { GrpcError } from '@oarlock/grpc/grpc-error';
import type { Methods } from '@oarlock/grpc/unix-server';
import type { ControllerOptions } from './controller-service.ts';
import type { OneAtATime } from './one-at-a-time.ts';
import { isBlock, required } from './requests.ts';
import type { Attached } from './volume-store.ts';

/** The part of the controller service that says which node may use a volume. Nothing moves: it is written down, and nodes look. */
export function attachService({ store, topology, nodeId: own, maxVolumes }: ControllerOptions, turns: OneAtATime): Methods {
  return {
    ControllerPublishVolume: ({ volumeId, nodeId, volumeCapability, readonly = false }: ControllerPublishRequest) =>
      turns.run(required('volume_id', volumeId), async () => {
        required('node_id', nodeId);
        if (volumeCapability === undefined) throw new GrpcError('INVALID_ARGUMENT', 'volume_capability is missing');
        const block = isBlock([volumeCapability], topology === undefined);
        const volume = store.volume(volumeId);
        if (volume === undefined) throw new GrpcError('NOT_FOUND', `there is no volume ${volumeId}`);
        if (topology !== undefined && nodeId !== own) throw new GrpcError('NOT_FOUND', `there is no node ${nodeId}`);
        if (volume.block !== block)
          throw new GrpcError('INVALID_ARGUMENT', `the volume is ${volume.block ? 'a block device' : 'a file system'}`);
        const mode = volumeCapability.accessMode?.mode ?? '';
        const { [nodeId]: before, ...others } = volume.attached ?? {};
        if (before !== undefined && (before.readonly !== readonly || before.mode !== mode))
          throw new GrpcError('ALREADY_EXISTS', `the volume ${volumeId} is attached to ${nodeId} in another way`);
        if (before !== undefined) return answer;
        const [other] = Object.entries(others);
        if (other !== undefined && !(isMulti(mode) && isMulti(other[1].mode)))
          throw new GrpcError('FAILED_PRECONDITION', `the volume ${volumeId} is attached to ${other[0]} already`);
        const count = maxVolumes === 0 ? 0 : store.volumes().filter(({ attached }) => attached?.[nodeId] !== undefined).length;
        if (maxVolumes > 0 && count >= maxVolumes)
          throw new GrpcError('RESOURCE_EXHAUSTED', `${nodeId} has ${count} volumes, which is as many as it may`);
        const attached: Attached = { readonly, mode };
        await store.put({ ...volume, attached: { ...others, [nodeId]: attached } });
        return answer;
      }),

    ControllerUnpublishVolume: ({ volumeId, nodeId }: { readonly volumeId: string; readonly nodeId: string }) =>
      turns.run(required('volume_id', volumeId), async () => {
        const volume = store.volume(volumeId);
        if (volume?.attached === undefined) return {};
        // without a node: from all of them
        const { [nodeId]: before, ...others } = nodeId === '' ? {} : volume.attached;
        if (nodeId === '' || before !== undefined) await store.put({ ...volume, attached: others });
        return {};
      }),
  };
}

const answer = { publishContext: {} };
const isMulti = (mode: string) => mode.startsWith('MULTI_NODE') && mode !== 'MULTI_NODE_SINGLE_WRITER';
