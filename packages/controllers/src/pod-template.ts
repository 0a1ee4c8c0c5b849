import { controllerRef, type KubeObject } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import { isStatus } from '@oarlock/api/status';
import type { Pod, PodTemplateSpec } from '@oarlock/api/types/core-v1';

/** The object with the kind written on it, which objects of typed lists need not have. */
export function typed<T extends KubeObject>(resource: Resource<T>, object: T): T {
  const apiVersion = resource.group === '' ? resource.version : `${resource.group}/${resource.version}`;
  return object.apiVersion === apiVersion && object.kind === resource.kind ? object : { ...object, apiVersion, kind: resource.kind };
}

/** A pod as its owner's template says, owned by it. Its name is given, or made from the owner's. */
export function podFromTemplate<T extends KubeObject>(
  template: PodTemplateSpec | undefined,
  resource: Resource<T>,
  owner: T,
  name?: string,
): Pod {
  const { labels, annotations, finalizers } = template?.metadata ?? {};
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      namespace: owner.metadata?.namespace ?? '',
      ...(name === undefined ? { generateName: `${owner.metadata?.name}-` } : { name }),
      ...(labels && { labels }),
      ...(annotations && { annotations }),
      ...(finalizers && { finalizers }),
      ownerReferences: [controllerRef(typed(resource, owner))],
    },
    ...(template?.spec && { spec: template.spec }),
  };
}

/** The name for requests. */
export const nameOf = ({ metadata }: KubeObject): { readonly name: string; readonly namespace?: string } => ({
  name: metadata?.name ?? '',
  ...(metadata?.namespace !== undefined && { namespace: metadata.namespace }),
});

/** The namespace is going away: whatever is refused for that need not be tried again. */
export const isNamespaceTerminating = (error: unknown): boolean =>
  isStatus(error, 'Forbidden') && (error.status.details?.causes?.some(({ reason }) => reason === 'NamespaceTerminating') ?? false);
