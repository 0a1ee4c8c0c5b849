import type { KubeObject } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import type { AdmissionRequest } from '@oarlock/spi/admission';

/** A request whose objects have been converted to the resource version that a rule names. */
export interface VersionedRequest extends AdmissionRequest {
  /** The request in the submitted version. */
  readonly requested?: AdmissionRequest;
}

/** Converts the objects of a request to the version of `resource`; returns the request itself for the same version. @throws StatusError InternalError */
export function toVersionedRequest(request: AdmissionRequest, resource: Resource): VersionedRequest | Promise<VersionedRequest> {
  const versions = resource === request.resource ? undefined : request.equivalents?.();
  if (versions === undefined) return request;
  const toVersion = (object: KubeObject | undefined) => object && versions.convert(object, resource);
  return (async () => ({
    ...request,
    resource,
    object: await toVersion(request.object),
    old: await toVersion(request.old),
    requested: request,
  }))();
}

/** Converts a mutated object back to the version of the request. @throws StatusError InternalError */
export function asRequested(request: AdmissionRequest, object: KubeObject): KubeObject | Promise<KubeObject> {
  return request.equivalents?.()?.convert(object, request.resource) ?? object;
}
