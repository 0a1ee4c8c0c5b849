import type { KubeObject } from '@oarlock/api/object';
import { withFields, withMetadata, type SubresourceStrategy } from './strategy.ts';

const sharedFields: ReadonlySet<string> = new Set(['kind', 'apiVersion', 'metadata', 'status']);

/** The status subresource of kinds without rules of their own: everything but metadata and status stays as it is. */
export const defaultStatusStrategy: SubresourceStrategy = {
  prepareForUpdate: (object, old) => {
    const parts: Record<string, unknown> = { ...old };
    for (const name of sharedFields) delete parts[name];
    for (const name of Object.keys(object)) if (!(name in parts) && !sharedFields.has(name)) parts[name] = undefined;
    return withFields(object, parts);
  },
};

/** Returns the object with the metadata that clients set as it was (metav1.ResetObjectMetaForStatus upstream). */
export function withClientMetadataOf(object: KubeObject, { metadata }: KubeObject): KubeObject {
  const { labels, annotations, finalizers, ownerReferences } = metadata ?? {};
  return withMetadata(object, { labels, annotations, finalizers, ownerReferences });
}

/** The status subresource of kinds whose labels, annotations, finalizers and owners it cannot change either. */
export const statusOnly: SubresourceStrategy = {
  prepareForUpdate: (object, old, context) => withClientMetadataOf(defaultStatusStrategy.prepareForUpdate(object, old, context), old),
};

/**
 * The resources whose status subresource changes only the status, by `resource.group`. Where a kind has a strategy of its own for the status, the
 * strategy applies `statusOnly` itself.
 */
export const statusOnlyResources: ReadonlySet<string> = new Set([
  'apiservices.apiregistration.k8s.io',
  'customresourcedefinitions.apiextensions.k8s.io',
  'devicetaintrules.resource.k8s.io',
  'flowschemas.flowcontrol.apiserver.k8s.io',
  'podcertificaterequests.certificates.k8s.io',
  'podgroups.scheduling.k8s.io',
  'prioritylevelconfigurations.flowcontrol.apiserver.k8s.io',
  'resourceclaims.resource.k8s.io',
  'resourcepoolstatusrequests.resource.k8s.io',
  'servicecidrs.networking.k8s.io',
  'storageversionmigrations.storagemigration.k8s.io',
  'storageversions.internal.apiserver.k8s.io',
  'validatingadmissionpolicies.admissionregistration.k8s.io',
  'volumeattachments.storage.k8s.io',
]);
