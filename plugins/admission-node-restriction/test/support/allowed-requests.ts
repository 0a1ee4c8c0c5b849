import { csiStorageCapacities, endpointSlices, leases, nodes, pods, resourceSlices } from '@oarlock/api/resources';
import { type AdmissionRequest } from '@oarlock/spi/admission';
import { admissionRequest } from '@oarlock/spi/admission/contract';
import { csr, pod, node, as, snapshot, holds, snapshotChange, capacity, token, slice, dnsSlice } from './node-requests.ts';
import { blocksAllowed } from './ip-block-requests.ts';

export const allowed: readonly (readonly [string, AdmissionRequest])[] = [
  ...blocksAllowed,
  ['the finalizer of a snapshot of its volume', snapshotChange(snapshot('ours', {}, holds), snapshot('ours'))],
  ['the class of a snapshot of its volume', snapshotChange(snapshot('ours', { volumeSnapshotClassName: 'a' }), snapshot('ours'))],
  [
    'the status of a snapshot of its volume',
    snapshotChange(
      { ...snapshot('ours'), status: { boundVolumeSnapshotContentName: 'snapcontent-uid-of-ours' } },
      snapshot('ours'),
      'status',
    ),
  ],
  [
    'the error of a snapshot whose claim has no volume',
    snapshotChange({ ...snapshot('nobody'), status: {} }, snapshot('nobody'), 'status'),
  ],
  ['the storage capacity of the node', admissionRequest('CREATE', csiStorageCapacities, capacity('n1'), as)],
  ['a mirror pod', admissionRequest('CREATE', pods, pod('n1'), as)],
  ['deletion of its pod', admissionRequest('DELETE', pods, undefined, { ...as, old: pod('n1'), namespace: 'd', name: 'm' })],
  [
    'status of its own pod',
    admissionRequest('UPDATE', pods, { ...pod('n1'), status: { phase: 'Running' } }, { ...as, old: pod('n1'), subresource: 'status' }),
  ],
  [
    'eviction of its pod',
    admissionRequest('CREATE', pods, { metadata: { namespace: 'd', name: 'here' } }, { ...as, subresource: 'eviction' }),
  ],
  ['itself', admissionRequest('CREATE', nodes, node('n1', { 'kubernetes.io/os': 'linux', 'node.kubernetes.io/x': '1', mine: '1' }), as)],
  ['its status', admissionRequest('UPDATE', nodes, node('n1'), { ...as, old: node('n1'), subresource: 'status' })],
  ['a token bound to its own pod', token({ apiVersion: 'v1', kind: 'Pod', name: 'here', uid: 'uid-here' })],
  ['its lease', admissionRequest('UPDATE', leases, { metadata: { namespace: 'kube-node-lease', name: 'n1' } }, as)],
  ['its slice', admissionRequest('CREATE', resourceSlices, slice('n1'), as)],
  ['a change of its slice', admissionRequest('UPDATE', resourceSlices, slice('n1'), { ...as, old: slice('n1') })],
  ['deletion of its slice', admissionRequest('DELETE', resourceSlices, undefined, { ...as, old: slice('n1'), name: 's' })],
  ['the EndpointSlice of its DNS server', admissionRequest('CREATE', endpointSlices, dnsSlice('n1'), as)],
  ['a certificate for itself', await csr('system:node:n1')],
  ['a certificate of another signer', await csr('whoever', 'example.com/own')],
  [
    'the same requests of a user that is not a node',
    admissionRequest('CREATE', nodes, node('n2', { 'node-restriction.kubernetes.io/x': '1' })),
  ],
];
