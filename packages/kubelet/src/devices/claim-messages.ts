import { MessageTable } from '@oarlock/grpc/message-table';

/** What a DRA driver serves on a node: `DRAPlugin` of k8s.io.kubelet.pkg.apis.dra.v1 and v1beta1, which are the same (KEP-4381). */
export const claimMessages = new MessageTable(
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
  'undefined',
);

export interface ClaimName {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}
/** A device as a driver has prepared it. */
export interface PreparedDevice {
  /** Of the claim; none: all of them. */
  readonly requestNames?: readonly string[];
  /** Names in the Container Device Interface: `vendor.com/class=name`. */
  readonly cdiDeviceIds?: readonly string[];
}
