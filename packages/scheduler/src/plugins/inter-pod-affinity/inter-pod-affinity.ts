import { namespaces } from '@oarlock/api/resources';
import type { Namespace, Pod } from '@oarlock/api/types/core-v1';
import { Informers, type Informer } from '@oarlock/spi/client';
import {
  Scheduling,
  skip,
  success,
  unschedulable,
  unschedulableAndUnresolvable,
  type CycleState,
  type NodeInfo,
  type PodAffinityGroup,
  type PodInfo,
  type SchedulingPlugin,
  type Status,
} from '@oarlock/spi/scheduling';
import { z } from 'zod';
import { nodeEvent } from '../helper/node-events.ts';
import { withConfigurableArgs } from '../helper/plugin-args.ts';
import { matchesPod, podAffinityTerms, podSelectorForTerms, type AffinityTerm, type LabelsOfNamespace } from './affinity-terms.ts';
import { TopologyCounts } from './topology-counts.ts';

const args = z.strictObject({
  /** Weight of the required affinity terms of existing pods in the score. */
  hardPodAffinityWeight: z.number().int().min(0).max(100).default(1),
  ignorePreferredTermsOfExistingPods: z.boolean().default(false),
});
type Args = z.output<typeof args>;

interface PreFilterState {
  /** Number of existing pods that match all required affinity terms of the pod, by topology domain. */
  readonly affinityCounts: TopologyCounts;
  /** Number of existing pods that match each required anti-affinity term of the pod, by topology domain. */
  readonly antiAffinityCounts: readonly TopologyCounts[];
  /** Number of required anti-affinity terms of existing pods that match the pod, by topology domain. */
  readonly existingAntiAffinityCounts: TopologyCounts;
}
const preFilterKey = Symbol('InterPodAffinity filter');
const preScoreKey = Symbol('InterPodAffinity score');

/** The plugin InterPodAffinity: places pods near or away from other pods, according to the affinity and anti-affinity terms of both pods. */
class InterPodAffinity {
  readonly #namespaces: Informer<Namespace>;
  readonly #labelsOfNamespace: LabelsOfNamespace = (name) => this.#namespaces.get(name)?.metadata?.labels;

  constructor(informer: Informer<Namespace>) {
    this.#namespaces = informer;
  }

  withArgs(pluginArgs: Args): SchedulingPlugin {
    return {
      name: 'InterPodAffinity',
      weight: 2,
      eventsToRegister: [
        {
          kind: 'AssignedPod',
          actions: ['added', 'updated', 'deleted'],
          queueingHint: (pod, old, now) => (this.#mayHelp(pod, old as Pod | undefined, now as Pod | undefined) ? 'queue' : 'skip'),
        },
        nodeEvent(['labels']),
      ],
      whenSynced: (signal) => this.#namespaces.whenSynced(signal),
      preFilter: (state, pod) => this.#preFilter(state, pod),
      addPod: (state, pod, added, node) => this.#updateCounts(state, pod, added, node, 1),
      removePod: (state, pod, removed, node) => this.#updateCounts(state, pod, removed, node, -1),
      filter: (state, pod, node) => this.#filter(state, pod, node),
      preScore: (state, pod) => this.#preScore(state, pod, pluginArgs),
      score: (state, _pod, node) => state.read<TopologyCounts>(preScoreKey)?.total(node) ?? 0,
      normalizeScore: (_state, _pod, _nodes, scores) => normalizeScores(scores),
    };
  }

  #selects(term: AffinityTerm, pod: Pod): boolean {
    return matchesPod(term, pod, this.#labelsOfNamespace);
  }
  #allSelect(terms: readonly AffinityTerm[], pod: Pod): boolean {
    return terms.length > 0 && terms.every((term) => this.#selects(term, pod));
  }
  /** Returns true if a required anti-affinity term of one of the two pods matches the other pod. */
  #conflicts(pod: Pod, other: Pod | undefined): boolean {
    return (
      other !== undefined &&
      (podAffinityTerms(pod).antiAffinity.some((term) => this.#selects(term, other)) ||
        podAffinityTerms(other).antiAffinity.some((term) => this.#selects(term, pod)))
    );
  }

  /**
   * Returns true if the change of an assigned pod may make `pod` schedulable: it satisfies a required affinity term or ends an anti-affinity
   * conflict.
   */
  #mayHelp(pod: Pod, old: Pod | undefined, now: Pod | undefined): boolean {
    const { affinity } = podAffinityTerms(pod);
    const [oldSelected, nowSelected] = [old, now].map((other) => other !== undefined && this.#allSelect(affinity, other));
    if (nowSelected && !oldSelected) return true;
    // if the last selected pod is deleted, a pod that selects itself may be the first of its group again
    if (oldSelected && !nowSelected && this.#allSelect(affinity, pod)) return true;
    return this.#conflicts(pod, old) && !this.#conflicts(pod, now);
  }

  #preFilter(state: CycleState, { pod }: PodInfo): Status {
    const { affinity, antiAffinity } = podAffinityTerms(pod);
    const existingAntiAffinityCounts = new TopologyCounts();
    for (const group of state.snapshot.podAffinityGroups)
      for (const term of podAffinityTerms(group.representative).antiAffinity)
        if (this.#selects(term, pod)) addGroup(state, group, term, existingAntiAffinityCounts, 1);
    if (existingAntiAffinityCounts.empty && affinity.length === 0 && antiAffinity.length === 0) return skip;
    const affinityCounts = new TopologyCounts();
    this.#addSelectedPods(state, affinity, affinityCounts, () => 1);
    const antiAffinityCounts = antiAffinity.map((term) => {
      const counts = new TopologyCounts();
      this.#addSelectedPods(state, [term], counts, () => 1);
      return counts;
    });
    state.write<PreFilterState>(preFilterKey, { affinityCounts, antiAffinityCounts, existingAntiAffinityCounts });
    return success;
  }

  /** Updates the preFilter state when a dry run adds or removes a pod. */
  #updateCounts(state: CycleState, { pod }: PodInfo, changed: PodInfo, node: NodeInfo, by: 1 | -1): void {
    const counts = state.read<PreFilterState>(preFilterKey);
    if (counts === undefined) return;
    const { affinity, antiAffinity } = podAffinityTerms(pod);
    for (const term of podAffinityTerms(changed.pod).antiAffinity)
      if (this.#selects(term, pod)) counts.existingAntiAffinityCounts.add(node, term.topologyKey, by);
    if (this.#allSelect(affinity, changed.pod)) for (const { topologyKey } of affinity) counts.affinityCounts.add(node, topologyKey, by);
    for (const [index, term] of antiAffinity.entries())
      if (this.#selects(term, changed.pod)) counts.antiAffinityCounts[index]?.add(node, term.topologyKey, by);
  }

  #filter(state: CycleState, { pod }: PodInfo, node: NodeInfo): Status {
    const { affinityCounts, antiAffinityCounts, existingAntiAffinityCounts } = state.read<PreFilterState>(preFilterKey) ?? {};
    const { affinity, antiAffinity } = podAffinityTerms(pod);
    if (affinityCounts !== undefined && affinity.length > 0 && !this.#satisfiesAffinity(affinity, affinityCounts, pod, node))
      return unschedulableAndUnresolvable("node(s) didn't match pod affinity rules");
    if (antiAffinity.some(({ topologyKey }, index) => (antiAffinityCounts?.[index]?.at(node, topologyKey) ?? 0) > 0))
      return unschedulable("node(s) didn't match pod anti-affinity rules");
    if (existingAntiAffinityCounts !== undefined && existingAntiAffinityCounts.total(node) > 0)
      return unschedulable("node(s) didn't satisfy existing pods anti-affinity rules");
    return success;
  }

  /**
   * Returns true if the node satisfies the pod's required affinity terms. The first pod of a group with affinity to itself fits any node that has the
   * topology labels.
   */
  #satisfiesAffinity(affinity: readonly AffinityTerm[], counts: TopologyCounts, pod: Pod, node: NodeInfo): boolean {
    if (affinity.some(({ topologyKey }) => node.label(topologyKey) === undefined)) return false;
    return affinity.every(({ topologyKey }) => counts.at(node, topologyKey) > 0) || (counts.empty && this.#allSelect(affinity, pod));
  }

  #preScore(state: CycleState, { pod }: PodInfo, { hardPodAffinityWeight, ignorePreferredTermsOfExistingPods }: Args): Status {
    const { preferredAffinity, preferredAntiAffinity } = podAffinityTerms(pod);
    const counts = new TopologyCounts();
    for (const term of preferredAffinity) this.#addSelectedPods(state, [term], counts, ({ weight }) => weight);
    for (const term of preferredAntiAffinity) this.#addSelectedPods(state, [term], counts, ({ weight }) => -weight);
    const hasPreferences = preferredAffinity.length > 0 || preferredAntiAffinity.length > 0;
    if (hasPreferences || !ignorePreferredTermsOfExistingPods) this.#addTermsOfExistingPods(state, pod, counts, hardPodAffinityWeight);
    if (counts.empty) return skip;
    state.write(preScoreKey, counts);
    return success;
  }

  #addTermsOfExistingPods(state: CycleState, pod: Pod, counts: TopologyCounts, hardPodAffinityWeight: number): void {
    for (const group of state.snapshot.podAffinityGroups) {
      const { affinity, preferredAffinity, preferredAntiAffinity } = podAffinityTerms(group.representative);
      if (hardPodAffinityWeight > 0)
        for (const term of affinity) if (this.#selects(term, pod)) addGroup(state, group, term, counts, hardPodAffinityWeight);
      for (const term of preferredAffinity) if (this.#selects(term, pod)) addGroup(state, group, term, counts, term.weight);
      for (const term of preferredAntiAffinity) if (this.#selects(term, pod)) addGroup(state, group, term, counts, -term.weight);
    }
  }

  /**
   * Counts the existing pods that match all of `terms`: for each term, adds the weighted number of pods on each node to the topology domain of the
   * node.
   */
  #addSelectedPods(
    { snapshot }: CycleState,
    terms: readonly AffinityTerm[],
    counts: TopologyCounts,
    weightOf: (term: AffinityTerm) => number,
  ): void {
    if (terms.length === 0) return;
    const selector = podSelectorForTerms(terms, () => this.#namespaceLabels());
    for (const [name, count] of snapshot.podCountByNode(selector)) {
      const node = snapshot.get(name);
      if (node !== undefined) for (const term of terms) counts.add(node, term.topologyKey, weightOf(term) * count);
    }
  }

  *#namespaceLabels() {
    for (const { metadata } of this.#namespaces.list()) yield [metadata?.name ?? '', metadata?.labels] as const;
  }
}

function addGroup(
  { snapshot }: CycleState,
  { countByNode }: PodAffinityGroup,
  { topologyKey }: AffinityTerm,
  counts: TopologyCounts,
  weight: number,
): void {
  for (const [name, count] of countByNode) {
    const node = snapshot.get(name);
    if (node !== undefined) counts.add(node, topologyKey, weight * count);
  }
}

/** Scales scores, which may be negative, to the range 0 to 100 in place. */
function normalizeScores(scores: Float64Array): void {
  let min = Number.POSITIVE_INFINITY;
  let max = Number.NEGATIVE_INFINITY;
  for (const score of scores) {
    min = Math.min(min, score);
    max = Math.max(max, score);
  }
  for (let index = 0; index < scores.length; index++)
    // upstream divides first, as floating-point numbers: 29 of 100 is 28
    scores[index] = max > min ? Math.floor(100 * (((scores[index] ?? 0) - min) / (max - min))) : 0;
}

export const interPodAffinity = Scheduling.plugin({
  id: 'scheduling-inter-pod-affinity',
  config: args,
  needs: { informers: Informers },
  create({ config, informers }): SchedulingPlugin {
    const plugin = new InterPodAffinity(informers.forResource(namespaces));
    return withConfigurableArgs(args, config, (pluginArgs) => plugin.withArgs(pluginArgs));
  },
});
