import type { LabelSelector } from '@oarlock/api/types/meta-v1';
import type { Selector } from '@oarlock/api/selectors/label-selector';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { Informer } from '@oarlock/spi/client';

/** Name of the index of pods by namespace and label. All controllers register the same index function on the shared informer. */
export const podsByLabelIndex = 'namespace-label';
export const labelKey = (namespace: string | undefined, key: string, value: string): string => `${namespace} ${key}=${value}`;
export const podLabelKeys = (pod: Pod): readonly string[] =>
  Object.entries(pod.metadata?.labels ?? {}).map(([key, value]) => labelKey(pod.metadata?.namespace, key, value));

/** The namespace, the index key of the selector, and the selector. */
export interface PodSelection {
  readonly namespace: string;
  readonly source: LabelSelector | undefined;
  readonly selector: Selector;
}

/**
 * Returns the pods of a namespace that match a selector, by an index lookup of one of the selector's labels. `source` is the LabelSelector from
 * which `selector` was compiled.
 */
export function podsMatchingSelector(pods: Informer<Pod>, { namespace, source, selector }: PodSelection): readonly Pod[] {
  const [first] = Object.entries(source?.matchLabels ?? {});
  const candidates = first === undefined ? pods.list(namespace) : pods.byIndex(podsByLabelIndex, labelKey(namespace, first[0], first[1]));
  return candidates.filter((pod) => selector.matches(pod.metadata?.labels));
}
