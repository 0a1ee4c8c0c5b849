import { controllerRef, type KubeObject } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import type { Pod, PodTemplateSpec } from '@oarlock/api/types/core-v1';
import { withTypeMeta } from '../objects/object-identity.ts';

/** Returns a pod built from the owner's pod template, with the owner as controller. Without `name`, the API server generates the name. */
export function podFromTemplate<T extends KubeObject>(
  template: PodTemplateSpec | undefined,
  { resource, owner, name }: { readonly resource: Resource<T>; readonly owner: T; readonly name?: string | undefined },
): Pod {
  const { labels, annotations, finalizers } = template?.metadata ?? {};
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      namespace: owner.metadata?.namespace ?? '',
      ...(name !== undefined && { name }),
      generateName: `${owner.metadata?.name}-`,
      ...(labels && { labels }),
      ...(annotations && { annotations }),
      ...(finalizers && { finalizers }),
      ownerReferences: [controllerRef(withTypeMeta(resource, owner))],
    },
    ...(template?.spec && { spec: template.spec }),
  };
}
