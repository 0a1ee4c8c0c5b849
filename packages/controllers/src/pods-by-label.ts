import type { LabelSelector } from '@oarlock/api/types/meta-v1';
import type { Selector } from '@oarlock/api/label-selector';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { Informer } from '@oarlock/spi/client';

/** The index of pods by namespace and label: one function for all who share the informer. */
export const byLabel = 'namespace-label';
export const labelKey = (namespace: string | undefined, key: string, value: string): string => `${namespace} ${key}=${value}`;
export const podLabels = (pod: Pod): readonly string[] =>
  Object.entries(pod.metadata?.labels ?? {}).map(([key, value]) => labelKey(pod.metadata?.namespace, key, value));

/** Pods of a namespace that a selector matches, found by one of its labels. `source` is what the selector was made of. */
export function selectedPods(
  pods: Informer<Pod>,
  namespace: string,
  source: LabelSelector | undefined,
  selector: Selector,
): readonly Pod[] {
  const [first] = Object.entries(source?.matchLabels ?? {});
  const candidates = first === undefined ? pods.list(namespace) : pods.byIndex(byLabel, labelKey(namespace, first[0], first[1]));
  return candidates.filter((pod) => selector.matches(pod.metadata?.labels));
}
