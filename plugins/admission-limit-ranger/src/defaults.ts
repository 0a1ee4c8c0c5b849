import type { Container, LimitRange, Pod, ResourceRequirements } from '@oarlock/api/types/core-v1';

const annotation = 'kubernetes.io/limit-ranger';
type Amounts = NonNullable<ResourceRequirements['requests']>;

/** Amounts that are missing, and the whole. */
function filled(held: Amounts = {}, given: Amounts): { readonly names: readonly string[]; readonly amounts: Amounts } {
  const names = Object.keys(given).filter((name) => held[name] === undefined);
  return { names, amounts: names.length === 0 ? held : { ...given, ...held } };
}

/** The pod with the defaults of a LimitRange where its containers ask for nothing, and an annotation that says so; the same pod when nothing is missing. */
export function withDefaults(pod: Pod, { spec: range }: LimitRange): Pod {
  const requests: Record<string, string | number> = {};
  const limits: Record<string, string | number> = {};
  for (const { type, defaultRequest, default: defaultLimit } of range?.limits ?? []) {
    if (type !== 'Container') continue;
    Object.assign(requests, defaultRequest);
    Object.assign(limits, defaultLimit);
  }
  const said: string[] = [];
  const complete =
    (what: string) =>
    (container: Container): Container => {
      const { resources } = container;
      const asked = filled(resources?.requests, requests as Amounts);
      const limited = filled(resources?.limits, limits as Amounts);
      if (asked.names.length === 0 && limited.names.length === 0) return container;
      if (asked.names.length > 0) said.push(`${[...asked.names].sort().join(', ')} request for ${what} ${container.name}`);
      if (limited.names.length > 0) said.push(`${[...limited.names].sort().join(', ')} limit for ${what} ${container.name}`);
      return {
        ...container,
        resources: {
          ...resources,
          ...(Object.keys(limited.amounts).length > 0 && { limits: limited.amounts }),
          ...(Object.keys(asked.amounts).length > 0 && { requests: asked.amounts }),
        },
      };
    };
  const { spec } = pod;
  if (spec === undefined) return pod;
  const containers = (spec.containers ?? []).map(complete('container'));
  const initContainers = spec.initContainers?.map(complete('init container'));
  if (said.length === 0) return pod;
  return {
    ...pod,
    metadata: {
      ...pod.metadata,
      annotations: { ...pod.metadata?.annotations, [annotation]: `LimitRanger plugin set: ${said.join('; ')}` },
    },
    spec: { ...spec, containers, ...(initContainers && { initContainers }) },
  };
}
