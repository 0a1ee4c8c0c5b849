import type { KubeObject } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import type { AdmissionRequest } from '@oarlock/spi/admission';

/** A request as rules see it that name another version of its resource. */
export interface VersionedRequest extends AdmissionRequest {
  /** As it was sent. */
  readonly requested?: AdmissionRequest;
}

/** The request with its objects in the version of `resource`; itself where that is its own. @throws StatusError InternalError */
export function versioned(request: AdmissionRequest, resource: Resource): VersionedRequest | Promise<VersionedRequest> {
  const versions = resource === request.resource ? undefined : request.versions?.();
  if (versions === undefined) return request;
  const shown = (object: KubeObject | undefined) => object && versions.convert(object, resource);
  return (async () => ({ ...request, resource, object: await shown(request.object), old: await shown(request.old), requested: request }))();
}

/** An object that was changed as `versioned` showed it, in the version of the request again. @throws StatusError InternalError */
export function asRequested(request: AdmissionRequest, object: KubeObject): KubeObject | Promise<KubeObject> {
  return request.versions?.()?.convert(object, request.resource) ?? object;
}
