import 'reflect-metadata';
import { webcrypto } from 'node:crypto';
import { resource } from '@oarlock/api/resource';
import {
  certificateSigningRequests,
  csiNodes,
  csiStorageCapacities,
  endpointSlices,
  leases,
  nodes,
  persistentVolumeClaims,
  persistentVolumes,
  pods,
  resourceSlices,
  serviceAccounts,
} from '@oarlock/api/resources';
import { failure } from '@oarlock/api/status';
import type { Node, PersistentVolume, Pod } from '@oarlock/api/types/core-v1';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Admission, type AdmissionRequest } from '@oarlock/spi/admission';
import { admissionContract, admissionRequest } from '@oarlock/spi/admission/contract';
import { Client } from '@oarlock/spi/client';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { cryptoProvider, Pkcs10CertificateRequestGenerator } from '@peculiar/x509';
import plugin from '../src/plugin.ts';

const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } as const;
cryptoProvider.set(webcrypto);
async function csr(commonName: string, signerName = 'kubernetes.io/kubelet-serving'): Promise<AdmissionRequest> {
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
  const snapshotContent = await Pkcs10CertificateRequestGenerator.create({ name: `CN=${commonName}`, keys, signingAlgorithm: algorithm });
  return csrOf(Buffer.from(snapshotContent.toString('pem')).toString('base64'), signerName);
}
const csrOf = (request: string, signerName = 'kubernetes.io/kubelet-serving') =>
  admissionRequest(
    'CREATE',
    certificateSigningRequests,
    { metadata: { name: 'c' }, spec: { signerName, request, usages: [] } },
    { identity },
  );

const volumeSnapshots = resource('snapshot.storage.k8s.io', 'v1', 'volumesnapshots', 'VolumeSnapshot', true);
const snapshotContents = resource('snapshot.storage.k8s.io', 'v1', 'volumesnapshotcontents', 'VolumeSnapshotContent', false);
const identity = { name: 'system:node:n1', groups: ['system:nodes', 'system:authenticated'] };
const nameless = { name: 'system:node:', groups: ['system:nodes'] };
const owner = { apiVersion: 'v1', kind: 'Node', name: 'n1', uid: 'uid-n1', controller: true };
const pod = (nodeName: string, more: Partial<Pod['spec']> = {}, metadata: Pod['metadata'] = {}): Pod => ({
  metadata: { namespace: 'd', name: 'm', annotations: { 'kubernetes.io/config.mirror': 'x' }, ownerReferences: [owner], ...metadata },
  spec: { nodeName, containers: [{ name: 'c', image: 'x' }], ...more },
});
const node = (name: string, labels: Record<string, string> = {}, more: Node['spec'] = {}): Node => ({
  metadata: { name, labels },
  spec: more,
});
const as = { identity };
const onNode = { csi: { driver: 'hostpath.csi.oarlock.dev', volumeHandle: 'v' } };
const volume = (source: object, on?: readonly string[]): PersistentVolume => ({
  metadata: { name: 'v' },
  spec: {
    ...source,
    ...(on && {
      nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions: [{ key: 'topology/node', operator: 'In', values: on }] }] } },
    }),
  },
});
const chosenClaim = (selected: string | undefined, storage: string) => ({
  metadata: { namespace: 'd', name: 'c', annotations: { ...(selected && { 'volume.kubernetes.io/selected-node': selected }) } },
  spec: { resources: { requests: { storage } } },
});
/** A snapshot of the claim `of-VOLUME`; the objects that the rules look up are below. */
const snapshot = (of: string, more: object = {}, finalizers: readonly string[] = []) => ({
  metadata: { namespace: 'd', name: 's', uid: `uid-of-${of}`, finalizers },
  spec: { source: { persistentVolumeClaimName: `of-${of}` }, ...more },
});
const holds = ['snapshot.storage.kubernetes.io/volumesnapshot-bound-protection'];
const snapshotChange = (object: object, old: object, subresource = '') =>
  admissionRequest('UPDATE', volumeSnapshots, object, { ...as, old, ...(subresource !== '' && { subresource }) });
const capacity = (...places: readonly string[]) => ({
  metadata: { namespace: 'kube-system', name: 'csisc-1' },
  storageClassName: 'standard',
  nodeTopology: { matchLabels: Object.fromEntries(places.map((place, at) => [`topology/${at}`, place])) },
});
const token = (boundObjectRef?: object) =>
  admissionRequest(
    'CREATE',
    serviceAccounts,
    { metadata: { namespace: 'd', name: 'default' }, ...{ spec: { audiences: [], ...(boundObjectRef && { boundObjectRef }) } } },
    { ...as, subresource: 'token' },
  );
const slice = (nodeName: string) => ({
  metadata: { name: 's' },
  spec: { driver: 'd', nodeName, pool: { name: 'a', generation: 1, resourceSliceCount: 1 } },
});

const networkSlice = (nodesOf: object) => {
  const { metadata, spec } = slice('n1');
  const { nodeName: _nodeName, ...rest } = spec;
  return { metadata, spec: { ...rest, ...nodesOf } };
};
interface DnsSliceFields {
  readonly namespace?: string;
  readonly name?: string;
  readonly service?: string;
  /** null: none. */
  readonly hints?: object | null;
}
const dnsSlice = (node: string, more: DnsSliceFields = {}) => ({
  metadata: {
    namespace: more.namespace ?? 'kube-system',
    name: more.name ?? 'kube-dns-n1',
    labels: { 'kubernetes.io/service-name': more.service ?? 'kube-dns' },
  },
  addressType: 'IPv4',
  endpoints: [
    { addresses: ['10.0.0.1'], nodeName: node, ...(more.hints !== null && { hints: more.hints ?? { forNodes: [{ name: 'n1' }] } }) },
  ],
});

const blocks = resource('network.oarlock.dev', 'v1', 'ipblocks', 'IPBlock', false);
const block = (spec: object) => ({ metadata: { name: 'b' }, ...{ spec: { cidr: '10.1.0.0/26', pool: 'p', ...spec } } });
const blockChange = (old: object | undefined, next: object | undefined) =>
  admissionRequest(old === undefined ? 'CREATE' : next === undefined ? 'DELETE' : 'UPDATE', blocks, next && block(next), {
    ...as,
    ...(old && { old: block(old) }),
    name: 'b',
  });
/** n2 exists, `gone` does not. */
const blocksDenied = [
  ['a block for another node', blockChange(undefined, { node: 'n2' }), 'give an IPBlock to node "n2"'],
  ['claims for another node', blockChange(undefined, { node: 'n1', claims: { n2: [1] } }), 'change what node "n2" claims'],
  ['another range', blockChange({ node: 'n1' }, { node: 'n1', cidr: '10.2.0.0/26' }), 'change the range of an IPBlock'],
  ["another's block", blockChange({ node: 'n2' }, { node: 'n1' }), 'take an IPBlock of node "n2"'],
  [
    "another's claims",
    blockChange({ node: 'n2', claims: { n2: [1, 2] } }, { node: 'n2', claims: { n2: [1] } }),
    'change what node "n2" claims',
  ],
  [
    'claims of another node that are all replaced',
    blockChange({ claims: { n2: [1] } }, { claims: { n1: [1] } }),
    'change what node "n2" claims',
  ],
  [
    'an address that another node claims',
    blockChange({ claims: { n2: [1] } }, { claims: { n1: [1], n2: [1] } }),
    'claim address 1, which another node does',
  ],
  ["deletion of another node's block", blockChange({ node: 'n2' }, undefined), 'take an IPBlock of node "n2"'],
  [
    'deletion of a block with claims of another node',
    blockChange({ node: 'n1', claims: { n2: [1] } }, undefined),
    'change what node "n2" claims',
  ],
  [
    'a request of another node',
    blockChange({ claims: { n2: [1] } }, { claims: { n2: [1] }, wanted: { 1: 'n2' } }),
    'request address 1 for other nodes',
  ],
] as const;
const blocksAllowed = [
  ['a new block for itself', blockChange(undefined, { node: 'n1', claims: { n1: [1, 2] } })],
  ['a claim in a new block', blockChange(undefined, { claims: { n1: [7] } })],
  ['more claims in its block', blockChange({ node: 'n1', claims: { n1: [1], n2: [3] } }, { node: 'n1', claims: { n1: [1, 2], n2: [3] } })],
  ["a claim in another node's block", blockChange({ node: 'n2', claims: { n2: [1] } }, { node: 'n2', claims: { n1: [5], n2: [1] } })],
  ['a wish', blockChange({ claims: { n2: [1] } }, { claims: { n2: [1] }, wanted: { 1: 'n1' } })],
  ['an address that it requested', blockChange({ claims: { n1: [1, 2] }, wanted: { 1: 'n2' } }, { claims: { n1: [2] }, wanted: {} })],
  ['a block without a node', blockChange({ claims: { n2: [1] } }, { node: 'n1', claims: { n2: [1] } })],
  ['a block of a deleted node', blockChange({ node: 'gone', claims: { gone: [1] } }, { node: 'n1', claims: { n1: [1] } })],
  ['the release of a block', blockChange({ node: 'n1', claims: { n1: [1], n2: [2] } }, { claims: { n2: [2] } })],
  ['deletion of its block', blockChange({ node: 'n1', claims: { n1: [1] } }, undefined)],
] as const;

const denied: readonly (readonly [string, AdmissionRequest, string | RegExp])[] = [
  [
    'a pod without the mirror annotation',
    admissionRequest('CREATE', pods, pod('n1', {}, { annotations: {} }), as),
    'pod does not have "kubernetes.io/config.mirror" annotation, node "n1" can only create mirror pods',
  ],
  [
    'a mirror pod of another node',
    admissionRequest('CREATE', pods, pod('n2'), as),
    'node "n1" can only create pods with spec.nodeName set to itself',
  ],
  [
    'a mirror pod without an owner',
    admissionRequest('CREATE', pods, pod('n1', {}, { ownerReferences: [] }), as),
    'node "n1" can only create pods with an owner reference set to itself',
  ],
  [
    'a mirror pod with two owners',
    admissionRequest('CREATE', pods, pod('n1', {}, { ownerReferences: [owner, owner] }), as),
    'a single owner reference',
  ],
  [
    'a mirror pod with another owner',
    admissionRequest('CREATE', pods, pod('n1', {}, { ownerReferences: [{ ...owner, kind: 'ReplicaSet' }] }), as),
    'an owner reference set to itself',
  ],
  [
    'a mirror pod whose owner is not a controller',
    admissionRequest('CREATE', pods, pod('n1', {}, { ownerReferences: [{ ...owner, controller: false }] }), as),
    'a controller owner reference',
  ],
  [
    'a mirror pod whose owner blocks deletion',
    admissionRequest('CREATE', pods, pod('n1', {}, { ownerReferences: [{ ...owner, blockOwnerDeletion: true }] }), as),
    'must not set blockOwnerDeletion',
  ],
  [
    'a mirror pod whose owner has an old UID',
    admissionRequest('CREATE', pods, pod('n1', {}, { ownerReferences: [{ ...owner, uid: 'old' }] }), as),
    'node n1 UID mismatch: expected old got uid-n1',
  ],
  [
    'a mirror pod with a secret',
    admissionRequest('CREATE', pods, pod('n1', { volumes: [{ name: 'v', secret: { secretName: 's' } }] }), as),
    'node "n1" can not create pods that reference secrets',
  ],
  [
    'a mirror pod with a service account',
    admissionRequest('CREATE', pods, pod('n1', { serviceAccountName: 'a' }), as),
    'reference serviceaccounts',
  ],
  ...(
    [
      ['secrets', { azureFile: { secretName: 's', shareName: 'x' } }],
      ['secrets', { csi: { driver: 'd', nodePublishSecretRef: { name: 's' } } }],
      ['secrets', { flexVolume: { driver: 'd', secretRef: { name: 's' } } }],
      ['secrets', { projected: { sources: [{ secret: { name: 's' } }] } }],
      ['configmaps', { configMap: { name: 'c' } }],
      ['csidrivers (via CSI volumes)', { csi: { driver: 'd' } }],
      ['persistentvolumeclaims', { persistentVolumeClaim: { claimName: 'c' } }],
      ['persistentvolumeclaims (via ephemeral volumes)', { ephemeral: {} }],
      ['serviceaccounts (via projected volumes)', { projected: { sources: [{ serviceAccountToken: { path: 't' } }] } }],
      ['clustertrustbundles', { projected: { sources: [{ clusterTrustBundle: { name: 'b', path: 'p' } }] } }],
      ['podcertificates', { projected: { sources: [{ podCertificate: { signerName: 'a/b', keyType: 'RSA3072' } }] } }],
    ] as const
  ).map(
    ([what, volume]) =>
      [
        `a mirror pod whose volume references ${what}: ${Object.keys(volume)[0] ?? ''}`,
        admissionRequest('CREATE', pods, pod('n1', { volumes: [{ name: 'v', ...volume }] }), as),
        `node "n1" can not create pods that reference ${what}`,
      ] as const,
  ),
  [
    'an update of a pod',
    admissionRequest('UPDATE', pods, pod('n1'), { ...as, old: pod('n1') }),
    'unexpected operation "UPDATE", node "n1" can only create and delete mirror pods',
  ],
  [
    'deletion of a pod of another node',
    admissionRequest('DELETE', pods, undefined, { ...as, old: pod('n2'), namespace: 'd', name: 'm' }),
    'node "n1" can only delete pods with spec.nodeName set to itself',
  ],
  [
    'status of a pod of another node',
    admissionRequest('UPDATE', pods, pod('n2'), { ...as, old: pod('n2'), subresource: 'status' }),
    'node "n1" can only update pod status for pods with spec.nodeName set to itself',
  ],
  [
    'labels in a status update',
    admissionRequest('UPDATE', pods, pod('n1', {}, { labels: { a: 'b' } }), { ...as, old: pod('n1'), subresource: 'status' }),
    'node "n1" cannot update labels through pod status',
  ],
  [
    'eviction of a pod of another node',
    admissionRequest('CREATE', pods, { metadata: { namespace: 'd', name: 'there' } }, { ...as, subresource: 'eviction' }),
    'node n1 can only evict pods with spec.nodeName set to itself',
  ],
  [
    'a binding',
    admissionRequest('CREATE', pods, { metadata: { namespace: 'd', name: 'here' } }, { ...as, subresource: 'binding' }),
    /^unexpected pod subresource "binding"/,
  ],
  ['another node', admissionRequest('CREATE', nodes, node('n2'), as), 'node "n1" is not allowed to modify node "n2"'],
  [
    'status of another node',
    admissionRequest('UPDATE', nodes, node('n2'), { ...as, old: node('n2'), subresource: 'status' }),
    'node "n1" is not allowed to modify node "n2"',
  ],
  [
    'restricted labels',
    admissionRequest('CREATE', nodes, node('n1', { 'node-restriction.kubernetes.io/x': '1', 'foo.k8s.io/y': '1', mine: '1' }), as),
    'node "n1" is not allowed to set the following labels: foo.k8s.io/y, node-restriction.kubernetes.io/x',
  ],
  [
    'a changed label',
    admissionRequest('UPDATE', nodes, node('n1', { 'node-role.kubernetes.io/control-plane': '' }), { ...as, old: node('n1') }),
    'is not allowed to modify labels: node-role.kubernetes.io/control-plane',
  ],
  [
    'taints',
    admissionRequest('UPDATE', nodes, node('n1'), { ...as, old: node('n1', {}, { taints: [{ key: 'a', effect: 'NoSchedule' }] }) }),
    'node "n1" is not allowed to modify taints',
  ],
  [
    'owners',
    admissionRequest('UPDATE', nodes, { ...node('n1'), metadata: { name: 'n1', ownerReferences: [owner] } }, { ...as, old: node('n1') }),
    'is not allowed to modify ownerReferences',
  ],
  ['an unbound token', token(), 'node requested token not bound to a pod'],
  ['a token bound to a node', token({ apiVersion: 'v1', kind: 'Node', name: 'n1', uid: 'x' }), 'node requested token not bound to a pod'],
  [
    'a token bound to a pod without a uid',
    token({ apiVersion: 'v1', kind: 'Pod', name: 'here' }),
    'node requested token with a pod binding without a uid',
  ],
  [
    'a token bound to an earlier pod',
    token({ apiVersion: 'v1', kind: 'Pod', name: 'here', uid: 'old' }),
    /^the UID in the bound object reference \(old\) does not match/,
  ],
  [
    'a token bound to a pod of another node',
    token({ apiVersion: 'v1', kind: 'Pod', name: 'there', uid: 'uid-there' }),
    'node requested token bound to a pod scheduled on a different node',
  ],
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
const allowed: readonly (readonly [string, AdmissionRequest])[] = [
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

admissionContract('admission-node-restriction', () => {
  const clock = new FakeClock();
  const api = memoryApi({ clock });
  api.seed(nodes, { metadata: { name: 'n1', uid: 'uid-n1' } }, { metadata: { name: 'n2', uid: 'uid-n2' } });
  for (const [name, nodeName] of [
    ['here', 'n1'],
    ['there', 'n2'],
  ] as const)
    api.seed(pods, { metadata: { namespace: 'd', name, uid: `uid-${name}` }, spec: { nodeName, containers: [] } });
  for (const [name, on] of [
    ['ours', 'n1'],
    ['theirs', 'n2'],
    ['taken', 'n1'],
  ] as const) {
    api.seed(persistentVolumes, { ...volume(onNode, [on]), metadata: { name } });
    api.seed(persistentVolumeClaims, { metadata: { namespace: 'd', name: `of-${name}` }, spec: { volumeName: name } });
  }
  api.seed(snapshotContents, {
    metadata: { name: 'snapcontent-uid-of-taken', labels: { 'snapshot.storage.kubernetes.io/managed-by': 'n2' } },
  });
  const [created] = new PluginHost({ clock }).provide(Client, api.client()).add({ plugin }).get(Admission);
  if (created === undefined) throw new Error('not created');
  return {
    plugin: created,
    cases: [
      ...denied.map(([title, request, message]) => ({ title, request, message, expected: 'denied' as const })),
      ...allowed.map(([title, request]) => ({ title, request, expected: 'allowed' as const })),
    ],
    writes: () => api.requests.filter(({ verb }) => !['get', 'list', 'watch'].includes(verb)).length,
    failDependencies: () => api.failNext({ verb: 'get' }, failure('ServiceUnavailable', 'the store is unavailable'), 10_000),
    dispose: () => api.stop(),
  };
});
