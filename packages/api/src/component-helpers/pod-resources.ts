import { addQuantity, compareQuantity, zeroQuantity, type ParsedQuantity } from '../values/quantity.ts';
import type { Pod, ResourceRequirements } from '../generated/types/core-v1.ts';
import { isRestartableInitContainer } from './restartable-init-container.ts';

/** A list of quantities by resource name. */
export type Resources = ReadonlyMap<string, ParsedQuantity>;
type ResourceListName = 'requests' | 'limits';

/** Returns true if a pod can specify this resource at pod level (KEP-2837). */
export const isSupportedPodLevelResource = (name: string): boolean => name === 'cpu' || name === 'memory' || name.startsWith('hugepages-');

function addResources(sum: Map<string, ParsedQuantity>, list: ResourceRequirements['requests']): void {
  for (const [name, amount] of Object.entries(list ?? {})) sum.set(name, addQuantity(sum.get(name) ?? zeroQuantity, amount));
}
function maxResources(most: Map<string, ParsedQuantity>, amounts: Resources): void {
  for (const [name, amount] of amounts) {
    const known = most.get(name);
    if (known === undefined || compareQuantity(amount, known) > 0) most.set(name, amount);
  }
}

/**
 * Returns the requests or limits of a pod (PodRequests and PodLimits of component-helpers): the sum of its containers and sidecars, or the
 * maximum of its init containers if that is more; pod-level resources take precedence; the overhead is added (to limits only for resources
 * that have one). KEP-2837,
 * https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers
 */
export function podResources(
  { spec }: Pod,
  wanted: ResourceListName,
  { overhead = true }: { readonly overhead?: boolean } = {},
): Resources {
  const sum = new Map<string, ParsedQuantity>();
  if (spec === undefined) return sum;
  for (const { resources } of spec.containers) addResources(sum, resources?.[wanted]);
  const sidecars = new Map<string, ParsedQuantity>();
  const most = new Map<string, ParsedQuantity>();
  for (const container of spec.initContainers ?? []) {
    const list = container.resources?.[wanted];
    if (isRestartableInitContainer(container)) {
      addResources(sum, list);
      addResources(sidecars, list);
      maxResources(most, sidecars);
    } else {
      const alone = new Map(sidecars);
      addResources(alone, list);
      maxResources(most, alone);
    }
  }
  maxResources(sum, most);
  for (const [name, amount] of Object.entries(spec.resources?.[wanted] ?? {}))
    if (isSupportedPodLevelResource(name)) sum.set(name, addQuantity(zeroQuantity, amount));
  if (overhead)
    for (const [name, amount] of Object.entries(spec.overhead ?? {}))
      if (wanted === 'requests' || sum.has(name)) sum.set(name, addQuantity(sum.get(name) ?? zeroQuantity, amount));
  return sum;
}
