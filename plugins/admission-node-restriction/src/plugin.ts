import { isForbiddenKubeletLabel } from '@oarlock/api/component-helpers/kubelet-labels';
import { jsonEqual } from '@oarlock/api/json/json';
import { FeatureGates } from '@oarlock/api/component-helpers/feature-gates';
import type { KubeObject } from '@oarlock/api/object';
import { groupResource } from '@oarlock/api/resource';
import type { Node, PersistentVolumeClaim } from '@oarlock/api/types/core-v1';
import type { EndpointSlice } from '@oarlock/api/types/discovery-v1';
import { Admission, allow, deny, type AdmissionRequest, type AdmissionDecision } from '@oarlock/spi/admission';
import type { Identity } from '@oarlock/spi/authn';
import { Authz, type Authorizer } from '@oarlock/spi/authz';
import { Client } from '@oarlock/spi/client';
import { Cluster } from '@oarlock/spi/cluster';
import { optional } from '@oarlock/kernel/slot';
import { z } from 'zod';
import { admitCertificateSigningRequest } from './certificate-request.ts';
import { changedLabels } from './node-labels.ts';
import { admitIPBlock } from './ip-blocks.ts';
import { admitPodEviction, admitPod, admitPodStatus, admitServiceAccountToken } from './pods.ts';
import { admitStorageCapacity, admitVolumeSnapshot, admitVolumeSnapshotContent } from './volume-snapshots.ts';
import { admitVolumeAttachment, admitPersistentVolumeClaim, admitPersistentVolume } from './volumes.ts';

const prefix = 'system:node:';
const leaseNamespace = 'kube-node-lease';
const quoted = JSON.stringify;

/** Returns the node name of a node's identity, or an empty string if the identity has no node name; undefined for identities of other users. */
function nodeOf({ name, groups }: Identity): string | undefined {
  return groups.includes('system:nodes') && name.startsWith(prefix) ? name.slice(prefix.length) : undefined;
}

function admitNode(node: string, { operation, name, object, old }: AdmissionRequest): AdmissionDecision {
  const next: Node = object ?? {};
  const before: Node = old ?? {};
  const requested = name === '' ? (next.metadata?.name ?? '') : name;
  if (requested !== node) return deny(`node ${quoted(node)} is not allowed to modify node ${quoted(requested)}`);
  if (operation === 'CREATE') {
    if (next.spec?.configSource != null) return deny(`node ${quoted(node)} is not allowed to create pods with a non-nil configSource`);
    const forbidden = changedLabels(next.metadata?.labels).filter(isForbiddenKubeletLabel);
    return forbidden.length === 0
      ? allow
      : deny(`node ${quoted(node)} is not allowed to set the following labels: ${forbidden.join(', ')}`);
  }
  if (operation !== 'UPDATE') return allow;
  if (next.spec?.configSource != null && !jsonEqual(next.spec.configSource, before.spec?.configSource))
    return deny(`node ${quoted(node)} is not allowed to update configSource to a new non-nil configSource`);
  if (!jsonEqual(next.spec?.taints ?? [], before.spec?.taints ?? [])) return deny(`node ${quoted(node)} is not allowed to modify taints`);
  if (!jsonEqual(next.metadata?.ownerReferences ?? [], before.metadata?.ownerReferences ?? []))
    return deny(`node ${quoted(node)} is not allowed to modify ownerReferences`);
  const forbidden = changedLabels(next.metadata?.labels, before.metadata?.labels).filter(isForbiddenKubeletLabel);
  return forbidden.length === 0 ? allow : deny(`is not allowed to modify labels: ${forbidden.join(', ')}`);
}

function admitLease(node: string, { operation, namespace, name, object }: AdmissionRequest): AdmissionDecision {
  if (namespace !== leaseNamespace) return deny(`can only access leases in the ${quoted(leaseNamespace)} system namespace`);
  const requested = operation === 'CREATE' ? (object?.metadata?.name ?? '') : name;
  return requested === node ? allow : deny('can only access node lease with the same name as the requesting node');
}

function admitCSINode(node: string, { operation, name, object }: AdmissionRequest): AdmissionDecision {
  const requested = operation === 'CREATE' ? (object?.metadata?.name ?? '') : name;
  return requested === node ? allow : deny('can only access CSINode with the same name as the requesting node');
}

function admitResourceSlice(node: string, { operation, object, old }: AdmissionRequest): AdmissionDecision {
  const nodeName = (of: KubeObject | undefined) => (of as { readonly spec?: { readonly nodeName?: string } } | undefined)?.spec?.nodeName;
  if (operation === 'CREATE')
    return nodeName(object) === node ? allow : deny('can only create ResourceSlice with the same NodeName as the requesting node');
  return nodeName(old) === node ? allow : deny('can only access ResourceSlice with the same NodeName as the requesting node');
}

/**
 * Allows a node to write the EndpointSlice of the node's own DNS server behind the Service kube-dns. Its hints name this node, so that the node does not
 * answer for pods of nodes with a DNS server of their own: a proxy ignores all hints of a Service if one endpoint has none.
 */
function admitEndpointSlice(node: string, { operation, namespace, name, object }: AdmissionRequest): AdmissionDecision {
  const own = `kube-dns-${node}`;
  const requested = operation === 'CREATE' ? (object?.metadata?.name ?? '') : name;
  if (namespace !== 'kube-system' || requested !== own)
    return deny(`node ${quoted(node)} can only access the EndpointSlice ${quoted(own)} in the "kube-system" namespace`);
  if (operation === 'DELETE') return allow;
  const { metadata, endpoints } = (object ?? {}) as EndpointSlice;
  if (metadata?.labels?.['kubernetes.io/service-name'] !== 'kube-dns')
    return deny(`node ${quoted(node)} can only write EndpointSlices of the Service "kube-dns"`);
  if (!(endpoints ?? []).every(({ nodeName }) => nodeName === node))
    return deny(`node ${quoted(node)} can only write endpoints with the same nodeName as the requesting node`);
  return (endpoints ?? []).every(({ hints }) => jsonEqual(hints ?? {}, { forNodes: [{ name: node }] }))
    ? allow
    : deny(`node ${quoted(node)} can only write endpoints with hints for the requesting node`);
}

const reported: ReadonlySet<string> = new Set([
  'conditions',
  'capacity',
  'allocatedResources',
  'allocatedResourceStatuses',
  'currentVolumeAttributesClassName',
  'modifyVolumeStatus',
]);

/** Allows a node to report the expansion of a volume in the status of its PersistentVolumeClaim, and rejects any other change. */
function admitPVCStatus(node: string, { operation, object, old }: AdmissionRequest): AdmissionDecision {
  if (operation !== 'UPDATE') return deny(`unexpected operation ${quoted(operation)}`);
  const rest = (claim: PersistentVolumeClaim) => ({
    ...claim,
    status: Object.entries(claim.status ?? {}).filter(([field]) => !reported.has(field)),
    metadata: { ...claim.metadata, managedFields: undefined, resourceVersion: undefined },
  });
  return jsonEqual(rest(object ?? {}), rest(old ?? {}))
    ? allow
    : deny(`node ${quoted(node)} is not allowed to update fields other than status quantity and status conditions`);
}

/** The resources to which the write access of nodes is restricted. */
const restrictedResources = [
  'pods',
  'pods/status',
  'pods/eviction',
  'pods/binding',
  'pods/resize',
  'pods/ephemeralcontainers',
  'nodes',
  'nodes/status',
  'serviceaccounts/token',
  'persistentvolumes',
  'persistentvolumeclaims',
  'persistentvolumeclaims/status',
  'volumeattachments.storage.k8s.io',
  'volumeattachments.storage.k8s.io/status',
  'volumesnapshotcontents.snapshot.storage.k8s.io',
  'volumesnapshotcontents.snapshot.storage.k8s.io/status',
  'volumesnapshots.snapshot.storage.k8s.io',
  'volumesnapshots.snapshot.storage.k8s.io/status',
  'csistoragecapacities.storage.k8s.io',
  'ipblocks.network.oarlock.dev',
  'leases.coordination.k8s.io',
  'csinodes.storage.k8s.io',
  'resourceslices.resource.k8s.io',
  'endpointslices.discovery.k8s.io',
  'certificatesigningrequests.certificates.k8s.io',
];

/** What decides about the requests of nodes. */
export interface NodeRestrictionNeeds {
  readonly client: Client;
  readonly authz: readonly Authorizer[];
  /** Whether nodes may request only the token audiences that their pods need. */
  readonly restrictsAudiences: boolean;
}

/** Admits a node's request according to the rules of the request's resource. */
function admitNodeRequest(
  node: string,
  request: AdmissionRequest,
  needs: NodeRestrictionNeeds,
): AdmissionDecision | Promise<AdmissionDecision> {
  const { resource, subresource } = request;
  const { client } = needs;
  switch (`${groupResource(resource)}${subresource === '' ? '' : `/${subresource}`}`) {
    case 'pods':
      return admitPod(client, node, request);
    case 'pods/status':
      return admitPodStatus(node, request);
    case 'pods/eviction':
      return admitPodEviction(client, node, request);
    case 'nodes':
    case 'nodes/status':
      return admitNode(node, request);
    case 'serviceaccounts/token':
      return admitServiceAccountToken(needs, node, request);
    case 'persistentvolumes':
      return admitPersistentVolume(client, node, request);
    case 'persistentvolumeclaims':
      return admitPersistentVolumeClaim(node, request);
    case 'volumeattachments.storage.k8s.io':
    case 'volumeattachments.storage.k8s.io/status':
      return admitVolumeAttachment(node, request);
    case 'volumesnapshotcontents.snapshot.storage.k8s.io':
    case 'volumesnapshotcontents.snapshot.storage.k8s.io/status':
      return admitVolumeSnapshotContent(client, node, request);
    case 'volumesnapshots.snapshot.storage.k8s.io':
    case 'volumesnapshots.snapshot.storage.k8s.io/status':
      return admitVolumeSnapshot(client, node, request);
    case 'csistoragecapacities.storage.k8s.io':
      return admitStorageCapacity(node, request);
    case 'ipblocks.network.oarlock.dev':
      return admitIPBlock(client, node, request);
    case 'persistentvolumeclaims/status':
      return admitPVCStatus(node, request);
    case 'leases.coordination.k8s.io':
      return admitLease(node, request);
    case 'csinodes.storage.k8s.io':
      return admitCSINode(node, request);
    case 'resourceslices.resource.k8s.io':
      return admitResourceSlice(node, request);
    case 'endpointslices.discovery.k8s.io':
      return admitEndpointSlice(node, request);
    case 'certificatesigningrequests.certificates.k8s.io':
      return admitCertificateSigningRequest(node, request);
    default:
      return deny(`unexpected pod subresource ${quoted(subresource)}, only 'status' and 'eviction' are allowed`);
  }
}

/** Restricts nodes to their own objects and to the objects of pods that are bound to them (NodeRestriction). */
export default Admission.plugin({
  id: 'admission-node-restriction',
  config: z.strictObject({}),
  needs: { client: Client, authz: Authz, facts: optional(Cluster) },
  create({ client, authz, facts }) {
    const restrictsAudiences = new FeatureGates(facts).enabled('ServiceAccountNodeAudienceRestriction');
    return {
      matches: [{ resources: restrictedResources, operations: ['CREATE', 'UPDATE', 'DELETE'] }],
      validate(request): AdmissionDecision | Promise<AdmissionDecision> {
        const node = nodeOf(request.identity);
        if (node === undefined) return allow;
        if (node === '') return deny(`could not determine node from user ${quoted(request.identity.name)}`);
        return admitNodeRequest(node, request, { client, authz, restrictsAudiences });
      },
    };
  },
});
