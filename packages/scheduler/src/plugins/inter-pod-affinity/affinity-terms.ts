import { own } from '@oarlock/api/json/json';
import { selectorFromLabelSelector, type Labels, type Selector } from '@oarlock/api/selectors/label-selector';
import type { LabelSelector } from '@oarlock/api/types/meta-v1';
import type { Pod, PodAffinityTerm, WeightedPodAffinityTerm } from '@oarlock/api/types/core-v1';
import type { PodSelector } from '@oarlock/spi/scheduling';

/** A compiled pod affinity or anti-affinity term. */
export interface AffinityTerm {
  readonly topologyKey: string;
  readonly weight: number;
  readonly selector: Selector;
  readonly namespaces: ReadonlySet<string>;
  readonly namespaceSelector: Selector | undefined;
}

export interface PodAffinityTerms {
  readonly affinity: readonly AffinityTerm[];
  readonly antiAffinity: readonly AffinityTerm[];
  readonly preferredAffinity: readonly AffinityTerm[];
  readonly preferredAntiAffinity: readonly AffinityTerm[];
}

const termsByPod = new WeakMap<Pod, PodAffinityTerms>();
const noTerms: PodAffinityTerms = { affinity: [], antiAffinity: [], preferredAffinity: [], preferredAntiAffinity: [] };

/**
 * Merges `matchLabelKeys` and `mismatchLabelKeys` into the selector. The API server has usually done this already (KEP-3633); repeating it has no
 * effect.
 */
function withLabelKeys(
  { labelSelector, matchLabelKeys = [], mismatchLabelKeys = [] }: PodAffinityTerm,
  labels: Labels,
): LabelSelector | undefined {
  if (labelSelector === undefined || (matchLabelKeys.length === 0 && mismatchLabelKeys.length === 0)) return labelSelector;
  const requirements = (keys: readonly string[], operator: 'In' | 'NotIn') =>
    keys.flatMap((key) => {
      const value = own(labels, key);
      return value === undefined ? [] : [{ key, operator, values: [value] }];
    });
  return {
    ...labelSelector,
    matchExpressions: [
      ...(labelSelector.matchExpressions ?? []),
      ...requirements(matchLabelKeys, 'In'),
      ...requirements(mismatchLabelKeys, 'NotIn'),
    ],
  };
}

function compileTerm({ metadata }: Pod, term: PodAffinityTerm, weight: number): AffinityTerm {
  const { namespaces = [], namespaceSelector } = term;
  const own = namespaces.length === 0 && namespaceSelector === undefined;
  return {
    topologyKey: term.topologyKey,
    weight,
    selector: selectorFromLabelSelector(withLabelKeys(term, metadata?.labels ?? {})),
    namespaces: new Set(own ? [metadata?.namespace ?? ''] : namespaces),
    namespaceSelector: namespaceSelector && selectorFromLabelSelector(namespaceSelector),
  };
}

export function podAffinityTerms(pod: Pod): PodAffinityTerms {
  const { podAffinity, podAntiAffinity } = pod.spec?.affinity ?? {};
  if (podAffinity === undefined && podAntiAffinity === undefined) return noTerms;
  let terms = termsByPod.get(pod);
  if (terms === undefined) {
    const required = (some: readonly PodAffinityTerm[] = []) => some.map((term) => compileTerm(pod, term, 1));
    const weighted = (some: readonly WeightedPodAffinityTerm[] = []) =>
      some.map(({ podAffinityTerm, weight }) => compileTerm(pod, podAffinityTerm, weight));
    terms = {
      affinity: required(podAffinity?.requiredDuringSchedulingIgnoredDuringExecution),
      antiAffinity: required(podAntiAffinity?.requiredDuringSchedulingIgnoredDuringExecution),
      preferredAffinity: weighted(podAffinity?.preferredDuringSchedulingIgnoredDuringExecution),
      preferredAntiAffinity: weighted(podAntiAffinity?.preferredDuringSchedulingIgnoredDuringExecution),
    };
    termsByPod.set(pod, terms);
  }
  return terms;
}

export type LabelsOfNamespace = (name: string) => Labels | undefined;

export function matchesPod(
  { namespaces, namespaceSelector, selector }: AffinityTerm,
  { metadata }: Pod,
  labelsOf: LabelsOfNamespace,
): boolean {
  const namespace = metadata?.namespace ?? '';
  if (!namespaces.has(namespace) && namespaceSelector?.matches(labelsOf(namespace)) !== true) return false;
  return selector.matches(metadata?.labels);
}

/** Returns a selector for the pods that match all terms. `allNamespaces` yields the names and labels of all namespaces. */
export function podSelectorForTerms(
  terms: readonly AffinityTerm[],
  allNamespaces: () => Iterable<readonly [name: string, labels: Labels | undefined]>,
): PodSelector {
  const parts = terms.map(({ namespaces, namespaceSelector, selector }) => {
    if (namespaceSelector?.empty === true) return { selector, namespaces: undefined };
    const names = new Set(namespaces);
    if (namespaceSelector !== undefined)
      for (const [name, labels] of allNamespaces()) if (namespaceSelector.matches(labels)) names.add(name);
    return { selector, namespaces: names };
  });
  const [first] = parts;
  return {
    key: `affinity ${JSON.stringify(
      parts.map(({ selector, namespaces }) => [
        selector.matchesNothing ? null : selector.toString(),
        namespaces === undefined ? '*' : [...namespaces].toSorted(),
      ]),
    )}`,
    ...(first?.namespaces !== undefined && { namespaces: first.namespaces }),
    matches: ({ metadata }) =>
      parts.every(({ selector, namespaces }) => namespaces?.has(metadata?.namespace ?? '') !== false && selector.matches(metadata?.labels)),
  };
}
