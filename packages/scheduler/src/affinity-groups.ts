import type { Pod, PodAffinityTerm } from '@oarlock/api/types/core-v1';
import type { AffinityGroup, PodInfo } from '@oarlock/spi/scheduling';

interface Group extends AffinityGroup {
  readonly byNode: Map<string, number>;
}

const usesLabels = ({ matchLabelKeys = [], mismatchLabelKeys = [] }: PodAffinityTerm) =>
  matchLabelKeys.length + mismatchLabelKeys.length > 0;
const keys = new WeakMap<Pod, string>();

/** Pods of one key mean the same; undefined: the pod minds no company. */
function keyOf(pod: Pod): string | undefined {
  const { podAffinity, podAntiAffinity } = pod.spec?.affinity ?? {};
  if (podAffinity === undefined && podAntiAffinity === undefined) return undefined;
  let key = keys.get(pod);
  if (key === undefined) {
    const terms = [podAffinity, podAntiAffinity].flatMap((each) => [
      ...(each?.requiredDuringSchedulingIgnoredDuringExecution ?? []),
      ...(each?.preferredDuringSchedulingIgnoredDuringExecution ?? []).map(({ podAffinityTerm }) => podAffinityTerm),
    ]);
    key = JSON.stringify([pod.metadata?.namespace, podAffinity, podAntiAffinity, terms.some(usesLabels) && pod.metadata?.labels]);
    keys.set(pod, key);
  }
  return key;
}

/** Whom the pods on nodes want near and whom not: of many pods of a few templates, a few groups. */
export class AffinityGroups {
  readonly #groups = new Map<string, Group>();

  get all(): Iterable<AffinityGroup> {
    return this.#groups.values();
  }

  placed({ pod }: PodInfo, node: string, by: 1 | -1): void {
    const key = keyOf(pod);
    if (key === undefined) return;
    let group = this.#groups.get(key);
    if (group === undefined) this.#groups.set(key, (group = { pod, byNode: new Map() }));
    const left = (group.byNode.get(node) ?? 0) + by;
    if (left > 0) group.byNode.set(node, left);
    else group.byNode.delete(node);
    if (group.byNode.size === 0) this.#groups.delete(key);
  }
}
