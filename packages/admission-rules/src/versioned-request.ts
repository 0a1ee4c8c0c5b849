import type { KubeObject } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import type { AdmissionRequest } from '@oarlock/spi/admission';

/** A request whose objects have been converted to the resource version that a rule names. */
export interface VersionedRequest extends AdmissionRequest {
  /** The request in the API version in which the client submitted it; absent if the objects were not converted. */
  readonly requested?: AdmissionRequest;
}

/**
 * Returns the request with its objects converted to the version of `resource`, or the request itself if the version is the same.
 * @throws StatusError InternalError if an object cannot be converted
 */
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

/** Converts a mutated object back to the API version of the request. @throws StatusError InternalError if the object cannot be converted */
export function asRequested(request: AdmissionRequest, object: KubeObject): KubeObject | Promise<KubeObject> {
  return request.equivalents?.()?.convert(object, request.resource) ?? object;
}
