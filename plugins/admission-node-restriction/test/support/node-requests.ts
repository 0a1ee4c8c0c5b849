import { webcrypto } from 'node:crypto';
import { resource } from '@oarlock/api/resource';
import { certificateSigningRequests, serviceAccounts } from '@oarlock/api/resources';
import type { Node, PersistentVolume, Pod } from '@oarlock/api/types/core-v1';
import { type AdmissionRequest } from '@oarlock/spi/admission';
import { admissionRequest } from '@oarlock/spi/admission/contract';
import { cryptoProvider, Pkcs10CertificateRequestGenerator } from '@peculiar/x509';
export const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } as const;
cryptoProvider.set(webcrypto);
export async function csr(commonName: string, signerName = 'kubernetes.io/kubelet-serving'): Promise<AdmissionRequest> {
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
  const snapshotContent = await Pkcs10CertificateRequestGenerator.create({ name: `CN=${commonName}`, keys, signingAlgorithm: algorithm });
  return csrOf(Buffer.from(snapshotContent.toString('pem')).toString('base64'), signerName);
}
export const csrOf = (request: string, signerName = 'kubernetes.io/kubelet-serving') =>
  admissionRequest(
    'CREATE',
    certificateSigningRequests,
    { metadata: { name: 'c' }, spec: { signerName, request, usages: [] } },
    { identity },
  );

export const volumeSnapshots = resource('snapshot.storage.k8s.io', 'v1', 'volumesnapshots', 'VolumeSnapshot', true);
export const snapshotContents = resource('snapshot.storage.k8s.io', 'v1', 'volumesnapshotcontents', 'VolumeSnapshotContent', false);
export const identity = { name: 'system:node:n1', groups: ['system:nodes', 'system:authenticated'] };
export const nameless = { name: 'system:node:', groups: ['system:nodes'] };
export const owner = { apiVersion: 'v1', kind: 'Node', name: 'n1', uid: 'uid-n1', controller: true };
export const pod = (nodeName: string, more: Partial<Pod['spec']> = {}, metadata: Pod['metadata'] = {}): Pod => ({
  metadata: { namespace: 'd', name: 'm', annotations: { 'kubernetes.io/config.mirror': 'x' }, ownerReferences: [owner], ...metadata },
  spec: { nodeName, containers: [{ name: 'c', image: 'x' }], ...more },
});
export const node = (name: string, labels: Record<string, string> = {}, more: Node['spec'] = {}): Node => ({
  metadata: { name, labels },
  spec: more,
});
export const as = { identity };
export const onNode = { csi: { driver: 'hostpath.csi.oarlock.dev', volumeHandle: 'v' } };
export const volume = (source: object, on?: readonly string[]): PersistentVolume => ({
  metadata: { name: 'v' },
  spec: {
    ...source,
    ...(on && {
      nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions: [{ key: 'topology/node', operator: 'In', values: on }] }] } },
    }),
  },
});
export const chosenClaim = (selected: string | undefined, storage: string) => ({
  metadata: { namespace: 'd', name: 'c', annotations: { ...(selected && { 'volume.kubernetes.io/selected-node': selected }) } },
  spec: { resources: { requests: { storage } } },
});
/** A snapshot of the claim `of-VOLUME`; the objects that the rules look up are below. */
export const snapshot = (of: string, more: object = {}, finalizers: readonly string[] = []) => ({
  metadata: { namespace: 'd', name: 's', uid: `uid-of-${of}`, finalizers },
  spec: { source: { persistentVolumeClaimName: `of-${of}` }, ...more },
});
export const holds = ['snapshot.storage.kubernetes.io/volumesnapshot-bound-protection'];
export const snapshotChange = (object: object, old: object, subresource = '') =>
  admissionRequest('UPDATE', volumeSnapshots, object, { ...as, old, ...(subresource !== '' && { subresource }) });
export const capacity = (...places: readonly string[]) => ({
  metadata: { namespace: 'kube-system', name: 'csisc-1' },
  storageClassName: 'standard',
  nodeTopology: { matchLabels: Object.fromEntries(places.map((place, at) => [`topology/${at}`, place])) },
});
export const token = (boundObjectRef?: object) =>
  admissionRequest(
    'CREATE',
    serviceAccounts,
    { metadata: { namespace: 'd', name: 'default' }, ...{ spec: { audiences: [], ...(boundObjectRef && { boundObjectRef }) } } },
    { ...as, subresource: 'token' },
  );
export const slice = (nodeName: string) => ({
  metadata: { name: 's' },
  spec: { driver: 'd', nodeName, pool: { name: 'a', generation: 1, resourceSliceCount: 1 } },
});

export const networkSlice = (nodesOf: object) => {
  const { metadata, spec } = slice('n1');
  const { nodeName: _nodeName, ...rest } = spec;
  return { metadata, spec: { ...rest, ...nodesOf } };
};
export interface DnsSliceFields {
  readonly namespace?: string;
  readonly name?: string;
  readonly service?: string;
  /** null: none. */
  readonly hints?: object | null;
}
export const dnsSlice = (node: string, more: DnsSliceFields = {}) => ({
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
