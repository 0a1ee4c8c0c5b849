import {
  csiNodes,
  csiStorageCapacities,
  endpointSlices,
  leases,
  nodes,
  persistentVolumeClaims,
  persistentVolumes,
  resourceSlices,
} from '@oarlock/api/resources';
import { type AdmissionRequest } from '@oarlock/spi/admission';
import { admissionRequest } from '@oarlock/spi/admission/contract';
import {
  csr,
  csrOf,
  nameless,
  node,
  as,
  onNode,
  volume,
  chosenClaim,
  snapshot,
  holds,
  snapshotChange,
  capacity,
  slice,
  networkSlice,
  dnsSlice,
} from './node-requests.ts';
import { blocksDenied } from './ip-block-requests.ts';
import { deniedForPods } from './denied-pod-requests.ts';

export const denied: readonly (readonly [string, AdmissionRequest, string | RegExp])[] = [
  ...deniedForPods,
  [
    "another's lease",
    admissionRequest('CREATE', leases, { metadata: { namespace: 'kube-node-lease', name: 'n2' } }, as),
    'can only access node lease with the same name as the requesting node',
  ],
  [
    'a lease in another namespace',
    admissionRequest('CREATE', leases, { metadata: { namespace: 'd', name: 'n1' } }, as),
    'can only access leases in the "kube-node-lease" system namespace',
  ],
  [
    "another's CSINode",
    admissionRequest('CREATE', csiNodes, { metadata: { name: 'n2' }, spec: { drivers: [] } }, as),
    'can only access CSINode with the same name as the requesting node',
  ],
  ...(
    [
      ['a volume without a CSI driver', volume({ hostPath: { path: '/' } }, ['n1'])],
      ['a volume that another node can access', volume(onNode, ['n1', 'n2'])],
      ['a volume of another node', volume(onNode, ['n2'])],
      ['a volume that all nodes can access', volume(onNode)],
    ] as const
  ).map(
    ([title, object]) =>
      [
        title,
        admissionRequest('CREATE', persistentVolumes, object, as),
        'can only write PersistentVolumes of CSI drivers that no other node reaches',
      ] as const,
  ),
  ...(
    [
      ['of a volume of another node', snapshotChange(snapshot('theirs', {}, holds), snapshot('theirs'))],
      ["of another node's snapshot content", snapshotChange(snapshot('taken', {}, holds), snapshot('taken'))],
      [
        "of another node's snapshot content, with a status",
        snapshotChange({ ...snapshot('taken'), status: { readyToUse: true } }, snapshot('taken'), 'status'),
      ],
      [
        'with a content of another node',
        snapshotChange({ ...snapshot('ours'), status: { boundVolumeSnapshotContentName: 'x' } }, snapshot('ours'), 'status'),
      ],
      [
        'with another class than requested',
        snapshotChange(snapshot('ours', { volumeSnapshotClassName: 'b' }), snapshot('ours', { volumeSnapshotClassName: 'a' })),
      ],
      ['with finalizers of other controllers', snapshotChange(snapshot('ours'), snapshot('ours', {}, ['somebody.else/holds']))],
    ] as const
  ).map(
    ([title, request]) =>
      [`a snapshot ${title}`, request, 'can only update VolumeSnapshots of volumes that no other node reaches'] as const,
  ),
  ...[capacity('n2'), capacity()].map(
    (object) =>
      [
        `the storage capacity ${object.nodeTopology.matchLabels['topology/0'] ?? 'everywhere'}`,
        admissionRequest('CREATE', csiStorageCapacities, object, as),
        'can only write CSIStorageCapacities of its own',
      ] as const,
  ),
  [
    'a claim with a larger request',
    admissionRequest('UPDATE', persistentVolumeClaims, chosenClaim('n1', '2Gi'), { ...as, old: chosenClaim('n1', '1Gi') }),
    'is not allowed to change PersistentVolumeClaims',
  ],
  [
    'a claim that another node provisions',
    admissionRequest('UPDATE', persistentVolumeClaims, chosenClaim(undefined, '1Gi'), { ...as, old: chosenClaim('n2', '1Gi') }),
    'is not allowed to change PersistentVolumeClaims',
  ],
  [
    "another's slice",
    admissionRequest('CREATE', resourceSlices, slice('n2'), as),
    'can only create ResourceSlice with the same NodeName as the requesting node',
  ],
  ...(
    [
      ['a slice for all nodes', { allNodes: true }],
      ['a slice for nodes by label', { nodeSelector: { nodeSelectorTerms: [{ matchExpressions: [{ key: 'a', operator: 'Exists' }] }] } }],
      ['a slice whose devices name their nodes', { perDeviceNodeSelection: true }],
      ['a slice without nodes', {}],
    ] as const
  ).map(
    ([title, nodesOf]) =>
      [
        title,
        admissionRequest('CREATE', resourceSlices, networkSlice(nodesOf), as),
        'can only create ResourceSlice with the same NodeName as the requesting node',
      ] as const,
  ),
  ...(['UPDATE', 'DELETE'] as const).flatMap((operation) =>
    (
      [
        ['n2', slice('n2')],
        ['all nodes', networkSlice({ allNodes: true })],
      ] as const
    ).map(
      ([owner, old]) =>
        [
          `${operation} of a slice of ${owner}`,
          admissionRequest(operation, resourceSlices, operation === 'UPDATE' ? slice('n1') : undefined, { ...as, old, name: 's' }),
          'can only access ResourceSlice with the same NodeName as the requesting node',
        ] as const,
    ),
  ),
  ...(
    [
      ['the DNS EndpointSlice of another node', dnsSlice('n2', { name: 'kube-dns-n2' }), /can only access the EndpointSlice "kube-dns-n1"/],
      ['endpoints of another namespace', dnsSlice('n1', { namespace: 'default' }), /in the "kube-system" namespace/],
      ['endpoints of another Service', dnsSlice('n1', { service: 'metrics' }), /of the Service "kube-dns"/],
      ['an endpoint on another node', dnsSlice('n2'), /the same nodeName as the requesting node/],
      ...[
        null,
        { forNodes: [] },
        { forNodes: [{ name: 'n2' }] },
        { forNodes: [{ name: 'n1' }, { name: 'n2' }] },
        { forNodes: [{ name: 'n1' }], forZones: [{ name: 'z' }] },
      ].map(
        (hints) =>
          [`a DNS endpoint with hints ${JSON.stringify(hints)}`, dnsSlice('n1', { hints }), /with hints for the requesting node/] as const,
      ),
    ] as const
  ).map(([title, object, message]) => [title, admissionRequest('CREATE', endpointSlices, object, as), message] as const),
  [
    'deletion of the slice of another node',
    admissionRequest('DELETE', endpointSlices, undefined, { ...as, old: dnsSlice('n2'), namespace: 'kube-system', name: 'kube-dns-n2' }),
    /can only access the EndpointSlice "kube-dns-n1"/,
  ],
  [
    'the size of a claim',
    admissionRequest(
      'UPDATE',
      persistentVolumeClaims,
      { metadata: { namespace: 'd', name: 'c' }, spec: { volumeName: 'x' } },
      { ...as, old: { metadata: { namespace: 'd', name: 'c' } }, subresource: 'status' },
    ),
    /not allowed to update fields other than/,
  ],
  ...blocksDenied,
  ['a certificate for another node', await csr('system:node:n2'), 'can only create a node CSR with CN=system:node:n1'],
  [
    'a client certificate for another user',
    await csr('kubernetes-admin', 'kubernetes.io/kube-apiserver-client-kubelet'),
    'can only create a node CSR with CN=system:node:n1',
  ],
  ['an invalid certificate request', csrOf('bm9uZQ=='), /^unable to parse csr: /],
  [
    'a node without a name',
    admissionRequest('CREATE', nodes, node('n1'), { identity: nameless }),
    'could not determine node from user "system:node:"',
  ],
];
