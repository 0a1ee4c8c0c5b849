import type { Container, LimitRange, Pod, ResourceRequirements } from '@oarlock/api/types/core-v1';

const annotation = 'kubernetes.io/limit-ranger';
type ResourceList = NonNullable<ResourceRequirements['requests']>;

/** Returns the names of the resources that got a default value, and the complete list of resources. */
function mergeResources(
  held: ResourceList = {},
  resources: ResourceList,
): { readonly names: readonly string[]; readonly amounts: ResourceList } {
  const names = Object.keys(resources).filter((name) => held[name] === undefined);
  return { names, amounts: names.length === 0 ? held : { ...resources, ...held } };
}

/** Returns the pod with the defaults of a LimitRange, and with an annotation that lists the defaults; the same pod if no value is missing. */
export function withDefaults(pod: Pod, { spec: range }: LimitRange): Pod {
  const requests: Record<string, string | number> = {};
  const limits: Record<string, string | number> = {};
  for (const { type, defaultRequest, default: defaultLimit } of range?.limits ?? []) {
    if (type !== 'Container') continue;
    Object.assign(requests, defaultRequest);
    Object.assign(limits, defaultLimit);
  }
  const annotationParts: string[] = [];
  const complete =
    (what: string) =>
    (container: Container): Container => {
      const { resources } = container;
      const requested = mergeResources(resources?.requests, requests as ResourceList);
      const limited = mergeResources(resources?.limits, limits as ResourceList);
      if (requested.names.length === 0 && limited.names.length === 0) return container;
      if (requested.names.length > 0)
        annotationParts.push(`${[...requested.names].sort().join(', ')} request for ${what} ${container.name}`);
      if (limited.names.length > 0) annotationParts.push(`${[...limited.names].sort().join(', ')} limit for ${what} ${container.name}`);
      return {
        ...container,
        resources: {
          ...resources,
          ...(Object.keys(limited.amounts).length > 0 && { limits: limited.amounts }),
          ...(Object.keys(requested.amounts).length > 0 && { requests: requested.amounts }),
        },
      };
    };
  const { spec } = pod;
  if (spec === undefined) return pod;
  const containers = (spec.containers ?? []).map(complete('container'));
  const initContainers = spec.initContainers?.map(complete('init container'));
  if (annotationParts.length === 0) return pod;
  return {
    ...pod,
    metadata: {
      ...pod.metadata,
      annotations: { ...pod.metadata?.annotations, [annotation]: `LimitRanger plugin set: ${annotationParts.join('; ')}` },
    },
    spec: { ...spec, containers, ...(initContainers && { initContainers }) },
  };
}
