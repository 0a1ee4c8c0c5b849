import { nodes, pods } from '@oarlock/api/resources';
import { type AdmissionRequest } from '@oarlock/spi/admission';
import { admissionRequest } from '@oarlock/spi/admission/contract';
import { owner, pod, node, as, token } from './node-requests.ts';
/** Requests for pods, nodes and tokens. */
export const deniedForPods: readonly (readonly [string, AdmissionRequest, string | RegExp])[] = [
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
];
