import { selectorFromObject, type Labels, type Selector } from '@oarlock/api/label-selector';
import type { LabelSelector } from '@oarlock/api/types/meta-v1';
import type { Pod, PodAffinityTerm, WeightedPodAffinityTerm } from '@oarlock/api/types/core-v1';
import type { PodSelection } from '@oarlock/spi/scheduling';

/** Whose company a pod asks for or against, compiled. */
export interface Term {
  readonly topologyKey: string;
  readonly weight: number;
  readonly selector: Selector;
  readonly namespaces: ReadonlySet<string>;
  readonly namespaceSelector: Selector | undefined;
}

export interface Terms {
  readonly affinity: readonly Term[];
  readonly antiAffinity: readonly Term[];
  readonly preferred: readonly Term[];
  readonly avoided: readonly Term[];
}

const known = new WeakMap<Pod, Terms>();
const noTerms: Terms = { affinity: [], antiAffinity: [], preferred: [], avoided: [] };

/** The API server has written the label keys into the selector already (KEP-3633); doing it again changes nothing. */
function withLabelKeys(
  { labelSelector, matchLabelKeys = [], mismatchLabelKeys = [] }: PodAffinityTerm,
  labels: Labels,
): LabelSelector | undefined {
  if (labelSelector === undefined || (matchLabelKeys.length === 0 && mismatchLabelKeys.length === 0)) return labelSelector;
  const more = (keys: readonly string[], operator: 'In' | 'NotIn') =>
    keys.flatMap((key) => (labels[key] === undefined ? [] : [{ key, operator, values: [labels[key]] }]));
  return {
    ...labelSelector,
    matchExpressions: [...(labelSelector.matchExpressions ?? []), ...more(matchLabelKeys, 'In'), ...more(mismatchLabelKeys, 'NotIn')],
  };
}

function compile({ metadata }: Pod, term: PodAffinityTerm, weight: number): Term {
  const { namespaces = [], namespaceSelector } = term;
  const own = namespaces.length === 0 && namespaceSelector === undefined;
  return {
    topologyKey: term.topologyKey,
    weight,
    selector: selectorFromObject(withLabelKeys(term, metadata?.labels ?? {})),
    namespaces: new Set(own ? [metadata?.namespace ?? ''] : namespaces),
    namespaceSelector: namespaceSelector && selectorFromObject(namespaceSelector),
  };
}

export function termsOf(pod: Pod): Terms {
  const { podAffinity, podAntiAffinity } = pod.spec?.affinity ?? {};
  if (podAffinity === undefined && podAntiAffinity === undefined) return noTerms;
  let terms = known.get(pod);
  if (terms === undefined) {
    const required = (some: readonly PodAffinityTerm[] = []) => some.map((term) => compile(pod, term, 1));
    const weighed = (some: readonly WeightedPodAffinityTerm[] = []) =>
      some.map(({ podAffinityTerm, weight }) => compile(pod, podAffinityTerm, weight));
    terms = {
      affinity: required(podAffinity?.requiredDuringSchedulingIgnoredDuringExecution),
      antiAffinity: required(podAntiAffinity?.requiredDuringSchedulingIgnoredDuringExecution),
      preferred: weighed(podAffinity?.preferredDuringSchedulingIgnoredDuringExecution),
      avoided: weighed(podAntiAffinity?.preferredDuringSchedulingIgnoredDuringExecution),
    };
    known.set(pod, terms);
  }
  return terms;
}

export type LabelsOfNamespace = (name: string) => Labels | undefined;

export function matchesPod({ namespaces, namespaceSelector, selector }: Term, { metadata }: Pod, labelsOf: LabelsOfNamespace): boolean {
  const namespace = metadata?.namespace ?? '';
  if (!namespaces.has(namespace) && namespaceSelector?.matches(labelsOf(namespace)) !== true) return false;
  return selector.matches(metadata?.labels);
}

/** The pods that all of the terms select. `all`: names and labels of the namespaces there are. */
export function selectionOf(
  terms: readonly Term[],
  all: () => Iterable<readonly [name: string, labels: Labels | undefined]>,
): PodSelection {
  const parts = terms.map(({ namespaces, namespaceSelector, selector }) => {
    if (namespaceSelector?.empty === true) return { selector, namespaces: undefined };
    const names = new Set(namespaces);
    if (namespaceSelector !== undefined) for (const [name, labels] of all()) if (namespaceSelector.matches(labels)) names.add(name);
    return { selector, namespaces: names };
  });
  const [first] = parts;
  return {
    key: `affinity ${JSON.stringify(
      parts.map(({ selector, namespaces }) => [
        selector.none ? null : selector.toString(),
        namespaces === undefined ? '*' : [...namespaces].toSorted(),
      ]),
    )}`,
    ...(first?.namespaces !== undefined && { namespaces: first.namespaces }),
    selects: ({ metadata }) =>
      parts.every(({ selector, namespaces }) => namespaces?.has(metadata?.namespace ?? '') !== false && selector.matches(metadata?.labels)),
  };
}
