import { gvkOf } from '@oarlock/api/kinds';
import type { Resource } from '@oarlock/api/resource';
import type { AdmissionRequest } from '@oarlock/spi/admission';
import type { VersionedRequest } from './versioned-request.ts';

export interface RequestKind {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
}
export interface RequestResource {
  readonly group: string;
  readonly version: string;
  readonly resource: string;
}
/** The `request` of an AdmissionReview without the objects, as CEL expressions and webhooks receive it. */
export interface AdmissionRequestValue {
  readonly kind: RequestKind;
  readonly resource: RequestResource;
  readonly subResource?: string;
  readonly requestKind: RequestKind;
  readonly requestResource: RequestResource;
  readonly requestSubResource?: string;
  readonly name?: string;
  readonly namespace?: string;
  readonly operation: string;
  readonly userInfo: {
    readonly username: string;
    readonly uid?: string;
    readonly groups?: readonly string[];
    readonly extra?: Readonly<Record<string, readonly string[]>>;
  };
  readonly dryRun: boolean;
  readonly options?: Readonly<Record<string, unknown>>;
}

export function admissionRequestValue(request: VersionedRequest): AdmissionRequestValue {
  const { resource, subresource, name, namespace, operation, identity, dryRun, options, requested = request } = request;
  return {
    kind: kindOf(request),
    resource: named(resource),
    ...(subresource !== '' && { subResource: subresource }),
    requestKind: kindOf(requested),
    requestResource: named(requested.resource),
    ...(subresource !== '' && { requestSubResource: subresource }),
    ...(name !== '' && { name }),
    // the namespace of a Namespace is its own name
    ...((namespace !== '' || isNamespace(request)) && { namespace: namespace === '' ? name : namespace }),
    operation,
    userInfo: {
      username: identity.name,
      ...(identity.uid !== undefined && { uid: identity.uid }),
      ...(identity.groups.length > 0 && { groups: identity.groups }),
      ...(identity.extra !== undefined && { extra: identity.extra }),
    },
    dryRun,
    ...(Object.keys(options).length > 0 && { options }),
  };
}

const named = ({ group, version, resource }: Resource): RequestResource => ({ group, version, resource });
const isNamespace = ({ resource }: AdmissionRequest) => resource.group === '' && resource.resource === 'namespaces';

/** Returns the kind of the submitted object. For a subresource, this kind can differ from the kind of the resource. */
function kindOf({ object, old, resource }: AdmissionRequest): RequestKind {
  const sent = object ?? old;
  if (sent?.kind !== undefined && sent.apiVersion !== undefined) {
    const { group, version, kind } = gvkOf(sent);
    return { group, version, kind };
  }
  return { group: resource.group, version: resource.version, kind: resource.kind };
}
