import type { ControllerPublishVolumeRequest } from '@oarlock/csi/csi-types';
import { GrpcError } from '@oarlock/grpc/grpc-error';
import type { Methods } from '@oarlock/grpc/unix-server';
import type { Attachment } from '../store/volume-store.ts';
import { isBlock, required } from './requests.ts';
import type { ControllerOptions } from './service-options.ts';

/**
 * Returns the methods of the CSI controller service that attach volumes to nodes. An attachment is only recorded; the node service checks the
 * record.
 */
export function attachService(options: ControllerOptions): Methods {
  const { store, locks } = options;
  return {
    ControllerPublishVolume: (request: ControllerPublishVolumeRequest) =>
      locks.run(required('volume_id', request.volumeId), () => attach(options, request)),

    ControllerUnpublishVolume: ({ volumeId, nodeId }: { readonly volumeId: string; readonly nodeId: string }) =>
      locks.run(required('volume_id', volumeId), async () => {
        const volume = store.volume(volumeId);
        if (volume?.attached === undefined) return {};
        // an empty node_id means all nodes
        const { [nodeId]: removed, ...others } = nodeId === '' ? {} : volume.attached;
        if (nodeId === '' || removed !== undefined) await store.put({ ...volume, attached: others });
        return {};
      }),
  };
}

async function attach(
  { store, topology, nodeId: ownNode, maxVolumes }: ControllerOptions,
  { volumeId, nodeId, volumeCapability, readonly = false }: ControllerPublishVolumeRequest,
): Promise<object> {
  required('node_id', nodeId);
  if (volumeCapability === undefined) throw new GrpcError('INVALID_ARGUMENT', 'volume_capability is missing');
  const block = isBlock([volumeCapability], topology === undefined);
  const volume = store.volume(volumeId);
  if (volume === undefined) throw new GrpcError('NOT_FOUND', `there is no volume ${volumeId}`);
  if (topology !== undefined && nodeId !== ownNode) throw new GrpcError('NOT_FOUND', `there is no node ${nodeId}`);
  if (volume.block !== block) throw new GrpcError('INVALID_ARGUMENT', `the volume is ${volume.block ? 'a block device' : 'a file system'}`);
  const mode = volumeCapability.accessMode?.mode ?? '';
  const { [nodeId]: existing, ...others } = volume.attached ?? {};
  if (existing !== undefined && (existing.readonly !== readonly || existing.mode !== mode))
    throw new GrpcError('ALREADY_EXISTS', `the volume ${volumeId} is attached to ${nodeId} with other properties`);
  if (existing !== undefined) return publishResponse;
  const [other] = Object.entries(others);
  if (other !== undefined && !(isMultiNode(mode) && isMultiNode(other[1].mode)))
    throw new GrpcError('FAILED_PRECONDITION', `the volume ${volumeId} is already attached to ${other[0]}`);
  const count = maxVolumes === 0 ? 0 : store.volumes().filter(({ attached }) => attached?.[nodeId] !== undefined).length;
  if (maxVolumes > 0 && count >= maxVolumes)
    throw new GrpcError('RESOURCE_EXHAUSTED', `${nodeId} has ${count} volumes, and its limit is ${maxVolumes}`);
  const attachment: Attachment = { readonly, mode };
  await store.put({ ...volume, attached: { ...others, [nodeId]: attachment } });
  return publishResponse;
}

const publishResponse = { publishContext: {} };
const isMultiNode = (mode: string) => mode.startsWith('MULTI_NODE') && mode !== 'MULTI_NODE_SINGLE_WRITER';
