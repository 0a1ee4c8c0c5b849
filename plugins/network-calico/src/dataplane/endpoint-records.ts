import { createHash } from 'node:crypto';
import { attachmentKey, RecordFiles, type AttachmentKey } from '@oarlock/network-cni/cni/record-files';

/** The record of a pod's network interface. It is written before the first change, so that an interrupted ADD can be reverted. */
export interface Endpoint {
  readonly containerId: string;
  readonly ifName: string;
  readonly netns: string;
  /** The name of the host end of the veth pair. */
  readonly hostInterface: string;
  readonly ips: readonly string[];
  /** The pod as `NAMESPACE/NAME`, for administrators. */
  readonly pod: string;
  /** The time of the ADD, in milliseconds since the epoch. */
  readonly since: number;
}

/** Returns the name of the host interface, which is a hash of the attachment, so that the name does not depend on stored state. */
export function hostInterfaceOf(prefix: string, key: AttachmentKey): string {
  return `${prefix}${createHash('sha1')
    .update(attachmentKey(key))
    .digest('hex')
    .slice(0, 15 - prefix.length)}`;
}

/** The endpoints of this node. Records that cannot be read are of pods that a power failure ended. */
export type EndpointRecords = RecordFiles<Endpoint>;

export const endpointRecords = (directory: string): EndpointRecords =>
  new RecordFiles(directory, {
    keyOf: (endpoint) => endpoint,
    isRecord: ({ containerId, ips }) => typeof containerId === 'string' && Array.isArray(ips),
  });
