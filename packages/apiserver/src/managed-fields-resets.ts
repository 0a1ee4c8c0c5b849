import { FieldSet } from '@oarlock/api/managed-fields/field-set';
import type { FieldType } from '@oarlock/api/managed-fields/field-type';
import { unmanaged } from '@oarlock/api/managed-fields/unmanaged';
import { groupResource } from '@oarlock/api/resource';
import type { ServedKind } from './served-kind.ts';

const status = FieldSet.of(['f:status']);
const spec = FieldSet.of(['f:spec']);
const specAndMetadata = FieldSet.of(['f:spec'], ['f:metadata']);
const statusAndMetadata = FieldSet.of(['f:status'], ['f:metadata']);

/** What ways of writing set back, where that is not what all kinds do. By resource and subresource. */
const special: Readonly<Record<string, FieldSet>> = {
  'pods/status': FieldSet.of(['f:spec'], ['f:metadata', 'f:deletionTimestamp'], ['f:metadata', 'f:ownerReferences']),
  'deployments.apps/status': FieldSet.of(['f:spec'], ['f:metadata', 'f:labels']),
  'namespaces/finalize': status,
  'certificatesigningrequests.certificates.k8s.io/status': FieldSet.of(['f:spec'], ['f:status', 'f:conditions']),
  'certificatesigningrequests.certificates.k8s.io/approval': FieldSet.of(['f:spec'], ['f:status', 'f:certificate']),
  'apiservices.apiregistration.k8s.io/status': specAndMetadata,
  'customresourcedefinitions.apiextensions.k8s.io/status': specAndMetadata,
  'flowschemas.flowcontrol.apiserver.k8s.io/status': specAndMetadata,
  'prioritylevelconfigurations.flowcontrol.apiserver.k8s.io/status': specAndMetadata,
  'validatingadmissionpolicies.admissionregistration.k8s.io/status': specAndMetadata,
  'servicecidrs.networking.k8s.io/status': specAndMetadata,
  'resourceclaims.resource.k8s.io/status': specAndMetadata,
  'volumeattachments.storage.k8s.io/status': specAndMetadata,
};

/** Fields that the server sets back when objects of a kind are written by a subresource, '' for the object itself. */
export function resetsOf({ resource, kind, custom }: ServedKind, subresource: string, type: FieldType | undefined): FieldSet {
  return resets(
    groupResource(resource),
    kind.subresources.some(({ name }) => name === 'status'),
    subresource,
    type,
    custom !== undefined,
  ).union(unmanaged);
}

function resets(what: string, hasStatus: boolean, subresource: string, type: FieldType | undefined, custom: boolean): FieldSet {
  const own = Object.hasOwn(special, `${what}/${subresource}`) ? special[`${what}/${subresource}`] : undefined;
  if (own !== undefined) return own;
  switch (subresource) {
    case '':
      return hasStatus ? status : unmanaged;
    case 'status':
      return custom ? allBut(type, 'status') : spec;
    case 'ephemeralcontainers':
      return within(type, ['ephemeralContainers']);
    case 'resize':
      return within(type, ['containers', 'initContainers']);
    default:
      return unmanaged;
  }
}

const allBut = (type: FieldType | undefined, ...kept: readonly string[]): FieldSet =>
  FieldSet.of(...[...(type?.map?.fields.keys() ?? [])].filter((name) => !kept.includes(name)).map((name) => [`f:${name}`]));

/** Everything but some fields of the spec. */
function within(type: FieldType | undefined, kept: readonly string[]): FieldSet {
  const others = [...(type?.map?.fields.get('spec')?.type.map?.fields.keys() ?? [])].filter((name) => !kept.includes(name));
  return statusAndMetadata.union(FieldSet.of(...others.map((name) => ['f:spec', `f:${name}`])));
}
