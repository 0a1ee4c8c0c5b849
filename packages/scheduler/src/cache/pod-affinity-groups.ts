import type { Pod, PodAffinityTerm } from '@oarlock/api/types/core-v1';
import type { PodAffinityGroup, PodInfo } from '@oarlock/spi/scheduling';

interface Group extends PodAffinityGroup {
  readonly countByNode: Map<string, number>;
}

const usesPodLabels = ({ matchLabelKeys = [], mismatchLabelKeys = [] }: PodAffinityTerm) =>
  matchLabelKeys.length + mismatchLabelKeys.length > 0;
const keys = new WeakMap<Pod, string>();

/** Returns a key that is equal for pods with equal pod affinity terms, or undefined for a pod without pod affinity. */
function affinityKey(pod: Pod): string | undefined {
  const { podAffinity, podAntiAffinity } = pod.spec?.affinity ?? {};
  if (podAffinity === undefined && podAntiAffinity === undefined) return undefined;
  let key = keys.get(pod);
  if (key === undefined) {
    const terms = [podAffinity, podAntiAffinity].flatMap((each) => [
      ...(each?.requiredDuringSchedulingIgnoredDuringExecution ?? []),
      ...(each?.preferredDuringSchedulingIgnoredDuringExecution ?? []).map(({ podAffinityTerm }) => podAffinityTerm),
    ]);
    key = JSON.stringify([pod.metadata?.namespace, podAffinity, podAntiAffinity, terms.some(usesPodLabels) && pod.metadata?.labels]);
    keys.set(pod, key);
  }
  return key;
}

/** Groups assigned pods by equal pod affinity and anti-affinity, so that plugins visit one group per pod template instead of every pod. */
export class PodAffinityGroups {
  readonly #groups = new Map<string, Group>();

  get all(): Iterable<PodAffinityGroup> {
    return this.#groups.values();
  }

  adjust({ pod }: PodInfo, node: string, by: 1 | -1): void {
    const key = affinityKey(pod);
    if (key === undefined) return;
    let group = this.#groups.get(key);
    if (group === undefined) this.#groups.set(key, (group = { representative: pod, countByNode: new Map() }));
    const left = (group.countByNode.get(node) ?? 0) + by;
    if (left > 0) group.countByNode.set(node, left);
    else group.countByNode.delete(node);
    if (group.countByNode.size === 0) this.#groups.delete(key);
  }
}
