import { addQuantity, compareQuantity, zero, type Amount } from './quantity.ts';
import type { Pod, ResourceRequirements } from './generated/types/core-v1.ts';

/** Amounts by resource. */
export type Amounts = ReadonlyMap<string, Amount>;
type Wanted = 'requests' | 'limits';

const podLevel = (name: string) => name === 'cpu' || name === 'memory' || name.startsWith('hugepages-');

function add(sum: Map<string, Amount>, list: ResourceRequirements['requests']): void {
  for (const [name, amount] of Object.entries(list ?? {})) sum.set(name, addQuantity(sum.get(name) ?? zero, amount));
}
function raise(most: Map<string, Amount>, amounts: Amounts): void {
  for (const [name, amount] of amounts) {
    const known = most.get(name);
    if (known === undefined || compareQuantity(amount, known) > 0) most.set(name, amount);
  }
}

/**
 * What a pod asks for as a whole: the sum of its containers and sidecars, or what its init containers need one after the other where that is more; amounts
 * stated for the whole pod win; the overhead of its runtime comes on top (limits: only of what is limited).
 * https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers, KEP-2837
 */
export function podAmounts({ spec }: Pod, wanted: Wanted, { overhead = true }: { readonly overhead?: boolean } = {}): Amounts {
  const sum = new Map<string, Amount>();
  if (spec === undefined) return sum;
  for (const { resources } of spec.containers) add(sum, resources?.[wanted]);
  const sidecars = new Map<string, Amount>();
  const most = new Map<string, Amount>();
  for (const { resources, restartPolicy } of spec.initContainers ?? []) {
    const list = resources?.[wanted];
    if (restartPolicy === 'Always') {
      add(sum, list);
      add(sidecars, list);
      raise(most, sidecars);
    } else {
      const alone = new Map(sidecars);
      add(alone, list);
      raise(most, alone);
    }
  }
  raise(sum, most);
  for (const [name, amount] of Object.entries(spec.resources?.[wanted] ?? {})) if (podLevel(name)) sum.set(name, addQuantity(zero, amount));
  if (overhead)
    for (const [name, amount] of Object.entries(spec.overhead ?? {}))
      if (wanted === 'requests' || sum.has(name)) sum.set(name, addQuantity(sum.get(name) ?? zero, amount));
  return sum;
}
