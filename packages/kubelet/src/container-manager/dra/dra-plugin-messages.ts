import { MessageTable } from '@oarlock/grpc/message-table';

/** The service `DRAPlugin` of k8s.io.kubelet.pkg.apis.dra.v1 and v1beta1, which have the same messages (KEP-4381). */
export const draPluginMessages = new MessageTable(
  {
    Claim: { namespace: '1 string', uid: '2 string', name: '3 string' },
    NodePrepareResourcesRequest: { claims: '1 repeated Claim' },
    NodePrepareResourcesResponse: { claims: '1 map<string,NodePrepareResourceResponse>' },
    NodePrepareResourceResponse: { devices: '1 repeated Device', error: '2 string' },
    Device: {
      requestNames: '1 repeated string',
      poolName: '2 string',
      deviceName: '3 string',
      cdiDeviceIds: '4 repeated string',
    },
    NodeUnprepareResourcesRequest: { claims: '1 repeated Claim' },
    NodeUnprepareResourcesResponse: { claims: '1 map<string,NodeUnprepareResourceResponse>' },
    NodeUnprepareResourceResponse: { error: '1 string' },
  },
  {},
  { absent: 'undefined' },
);

export interface ClaimReference {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}
/** A device that a DRA driver has prepared. */
export interface PreparedDevice {
  /** The requests of the ResourceClaim that the device satisfies; undefined means all requests. */
  readonly requestNames?: readonly string[];
  /** CDI device names, such as `vendor.com/class=name`. */
  readonly cdiDeviceIds?: readonly string[];
}
