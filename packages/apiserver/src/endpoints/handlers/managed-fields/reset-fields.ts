import { FieldSet } from '@oarlock/api/managed-fields/field-set';
import type { FieldType } from '@oarlock/api/managed-fields/field-type';
import { stripSet } from '@oarlock/api/managed-fields/strip-meta';
import { groupResource } from '@oarlock/api/resource';
import { statusOnlyResources } from '../../../registry/status-only.ts';
import type { ServedKind } from '../../../registry/served-kind.ts';

const status = FieldSet.of(['f:status']);
const spec = FieldSet.of(['f:spec']);
const specAndMetadata = FieldSet.of(['f:spec'], ['f:metadata']);
const statusAndMetadata = FieldSet.of(['f:status'], ['f:metadata']);

/** The reset fields of resources and subresources for which the general rule does not apply (ResetFieldsStrategy upstream). */
const special: Readonly<Record<string, FieldSet>> = {
  'pods/status': FieldSet.of(['f:spec'], ['f:metadata', 'f:deletionTimestamp'], ['f:metadata', 'f:ownerReferences']),
  'deployments.apps/status': FieldSet.of(['f:spec'], ['f:metadata', 'f:labels']),
  'namespaces/finalize': status,
  'certificatesigningrequests.certificates.k8s.io/status': FieldSet.of(['f:spec'], ['f:status', 'f:conditions']),
  'certificatesigningrequests.certificates.k8s.io/approval': FieldSet.of(['f:spec'], ['f:status', 'f:certificate']),
};

/**
 * Returns the reset fields of a subresource ('' for the object itself): the server ignores changes of these fields, so writes do not make the client
 * their manager.
 */
export function resetFieldsOf(
  { resource, kind, customResource: custom }: ServedKind,
  subresource: string,
  type: FieldType | undefined,
): FieldSet {
  return resetFieldPaths({
    resource: groupResource(resource),
    hasStatus: kind.subresources.some(({ name }) => name === 'status'),
    subresource,
    type,
    custom: custom !== undefined,
  }).union(stripSet);
}

interface ResetFieldsInput {
  readonly resource: string;
  readonly hasStatus: boolean;
  readonly subresource: string;
  readonly type: FieldType | undefined;
  readonly custom: boolean;
}

function resetFieldPaths({ resource, hasStatus, subresource, type, custom }: ResetFieldsInput): FieldSet {
  const key = `${resource}/${subresource}`;
  const specialFields = Object.hasOwn(special, key) ? special[key] : undefined;
  if (specialFields !== undefined) return specialFields;
  switch (subresource) {
    case '':
      return hasStatus ? status : stripSet;
    case 'status':
      if (custom) return allFieldsExcept(type, 'status');
      return statusOnlyResources.has(resource) ? specAndMetadata : spec;
    case 'ephemeralcontainers':
      return specFieldsExcept(type, ['ephemeralContainers']);
    case 'resize':
      return specFieldsExcept(type, ['containers', 'initContainers']);
    default:
      return stripSet;
  }
}

const allFieldsExcept = (type: FieldType | undefined, ...kept: readonly string[]): FieldSet =>
  FieldSet.of(...[...(type?.map?.fields.keys() ?? [])].filter((name) => !kept.includes(name)).map((name) => [`f:${name}`]));

/** Returns the status, the metadata, and the fields of the spec that are not in `kept`. */
function specFieldsExcept(type: FieldType | undefined, kept: readonly string[]): FieldSet {
  const others = [...(type?.map?.fields.get('spec')?.type.map?.fields.keys() ?? [])].filter((name) => !kept.includes(name));
  return statusAndMetadata.union(FieldSet.of(...others.map((name) => ['f:spec', `f:${name}`])));
}
