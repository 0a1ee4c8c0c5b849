import { namespaces } from '@oarlock/api/resources';
import type { Pod } from '@oarlock/api/types/core-v1';
import { Informers } from '@oarlock/spi/client';
import {
  Scheduling,
  skip,
  success,
  unresolvable,
  unschedulable,
  type AffinityGroup,
  type CycleState,
  type NodeInfo,
  type PodInfo,
  type SchedulingPlugin,
} from '@oarlock/spi/scheduling';
import { z } from 'zod';
import { configurable } from '../plugin-args.ts';
import { onNode } from './node-changes.ts';
import { matchesPod, selectionOf, termsOf, type Term } from './affinity-terms.ts';

/** Sums by topology key, then by the value that nodes have for it. Sums of zero are left out. */
class Sums {
  readonly #by = new Map<string, Map<string, number>>();

  get empty(): boolean {
    return this.#by.size === 0;
  }
  add(node: NodeInfo, key: string, amount: number): void {
    const value = node.label(key);
    if (value === undefined) return;
    const sums = this.#by.get(key) ?? new Map<string, number>();
    const sum = (sums.get(value) ?? 0) + amount;
    if (sum === 0) sums.delete(value);
    else sums.set(value, sum);
    if (sums.size === 0) this.#by.delete(key);
    else this.#by.set(key, sums);
  }
  at(node: NodeInfo, key: string): number {
    return this.#by.get(key)?.get(node.label(key) ?? '') ?? 0;
  }
  /** Over all keys. */
  total(node: NodeInfo): number {
    let total = 0;
    for (const key of this.#by.keys()) total += this.at(node, key);
    return total;
  }
}

interface Filtered {
  /** Pods that all required terms select. */
  readonly wanted: Sums;
  readonly unwanted: readonly Sums[];
  /** Pods there that do not want this one near. */
  readonly refusing: Sums;
}

const args = z.strictObject({
  /** What a required term of a pod that is placed already counts in its favour. */
  hardPodAffinityWeight: z.number().int().min(0).max(100).default(1),
  ignorePreferredTermsOfExistingPods: z.boolean().default(false),
});

/** Places pods near others or away from them, as these and those ask for. */
export const interPodAffinity = Scheduling.plugin({
  id: 'scheduling-inter-pod-affinity',
  config: args,
  needs: { informers: Informers },
  create({ config, informers }): SchedulingPlugin {
    const filtering = Symbol('InterPodAffinity filter');
    const scoring = Symbol('InterPodAffinity score');
    const known = informers.of(namespaces);
    const labelsOf = (name: string) => known.get(name)?.metadata?.labels;
    const allNamespaces = function* () {
      for (const { metadata } of known.list()) yield [metadata?.name ?? '', metadata?.labels] as const;
    };
    const selects = (term: Term, pod: Pod) => matchesPod(term, pod, labelsOf);

    const selectsAll = (terms: readonly Term[], pod: Pod) => terms.length > 0 && terms.every((term) => selects(term, pod));
    const isUnwanted = (pod: Pod, other: Pod | undefined) =>
      other !== undefined &&
      (termsOf(pod).antiAffinity.some((term) => selects(term, other)) || termsOf(other).antiAffinity.some((term) => selects(term, pod)));

    /** Whether it helps a pod that another one comes, changes or goes: as company that it wants, or because it is not that any more which it does not. */
    const mayHelp = (pod: Pod, old: Pod | undefined, now: Pod | undefined): boolean => {
      const { affinity } = termsOf(pod);
      const [was, is] = [old, now].map((other) => other !== undefined && selectsAll(affinity, other));
      if (is && !was) return true;
      // when the last one goes that it wants to be near, it may be the first again
      if (was && !is && selectsAll(affinity, pod)) return true;
      return isUnwanted(pod, old) && !isUnwanted(pod, now);
    };

    const addCounted = ({ snapshot }: CycleState, counted: readonly Term[], to: Sums, weightOf: (term: Term) => number) => {
      if (counted.length === 0) return;
      for (const [name, count] of snapshot.count(selectionOf(counted, allNamespaces))) {
        const node = snapshot.get(name);
        if (node !== undefined) for (const term of counted) to.add(node, term.topologyKey, weightOf(term) * count);
      }
    };

    const addGroup = ({ snapshot }: CycleState, { byNode }: AffinityGroup, { topologyKey }: Term, to: Sums, weight: number) => {
      for (const [name, count] of byNode) {
        const node = snapshot.get(name);
        if (node !== undefined) to.add(node, topologyKey, weight * count);
      }
    };

    const change = (state: CycleState, { pod }: PodInfo, changed: PodInfo, node: NodeInfo, by: 1 | -1) => {
      const filtered = state.read<Filtered>(filtering);
      if (filtered === undefined) return;
      const { affinity, antiAffinity } = termsOf(pod);
      for (const term of termsOf(changed.pod).antiAffinity) if (selects(term, pod)) filtered.refusing.add(node, term.topologyKey, by);
      if (affinity.length > 0 && affinity.every((term) => selects(term, changed.pod)))
        for (const { topologyKey } of affinity) filtered.wanted.add(node, topologyKey, by);
      for (const [index, term] of antiAffinity.entries())
        if (selects(term, changed.pod)) filtered.unwanted[index]?.add(node, term.topologyKey, by);
    };

    return configurable(args, config, ({ hardPodAffinityWeight, ignorePreferredTermsOfExistingPods }) => ({
      name: 'InterPodAffinity',
      weight: 2,
      requeueOn: [
        {
          kind: 'AssignedPod',
          on: ['added', 'updated', 'deleted'],
          hint: (pod, old, now) => (mayHelp(pod, old as Pod | undefined, now as Pod | undefined) ? 'queue' : 'skip'),
        },
        onNode(['labels']),
      ],
      ready: (signal) => known.whenSynced(signal),

      preFilter(state, { pod }) {
        const { affinity, antiAffinity } = termsOf(pod);
        const refusing = new Sums();
        for (const group of state.snapshot.affinityGroups)
          for (const term of termsOf(group.pod).antiAffinity) if (selects(term, pod)) addGroup(state, group, term, refusing, 1);
        if (refusing.empty && affinity.length === 0 && antiAffinity.length === 0) return skip;
        const wanted = new Sums();
        addCounted(state, affinity, wanted, () => 1);
        const unwanted = antiAffinity.map((term) => {
          const sums = new Sums();
          addCounted(state, [term], sums, () => 1);
          return sums;
        });
        state.write<Filtered>(filtering, { wanted, unwanted, refusing });
        return success;
      },
      addPod: (state, pod, added, node) => change(state, pod, added, node, 1),
      removePod: (state, pod, removed, node) => change(state, pod, removed, node, -1),

      filter(state, { pod }, node) {
        const { wanted, unwanted, refusing } = state.read<Filtered>(filtering) ?? {};
        const { affinity, antiAffinity } = termsOf(pod);
        if (wanted !== undefined && affinity.length > 0) {
          const labelled = affinity.every(({ topologyKey }) => node.label(topologyKey) !== undefined);
          // the first of a group that wants to be near itself may go anywhere
          const first = () => wanted.empty && affinity.every((term) => selects(term, pod));
          if (!labelled || (!affinity.every(({ topologyKey }) => wanted.at(node, topologyKey) > 0) && !first()))
            return unresolvable("node(s) didn't match pod affinity rules");
        }
        if (antiAffinity.some(({ topologyKey }, index) => (unwanted?.[index]?.at(node, topologyKey) ?? 0) > 0))
          return unschedulable("node(s) didn't match pod anti-affinity rules");
        if (refusing !== undefined && refusing.total(node) > 0)
          return unschedulable("node(s) didn't satisfy existing pods anti-affinity rules");
        return success;
      },

      preScore(state, { pod }) {
        const { preferred, avoided } = termsOf(pod);
        const sums = new Sums();
        for (const term of preferred) addCounted(state, [term], sums, ({ weight }) => weight);
        for (const term of avoided) addCounted(state, [term], sums, ({ weight }) => -weight);
        const asked = preferred.length > 0 || avoided.length > 0;
        if (asked || !ignorePreferredTermsOfExistingPods) {
          for (const group of state.snapshot.affinityGroups) {
            const { affinity, preferred: wanted, avoided: unwanted } = termsOf(group.pod);
            if (hardPodAffinityWeight > 0)
              for (const term of affinity) if (selects(term, pod)) addGroup(state, group, term, sums, hardPodAffinityWeight);
            for (const term of wanted) if (selects(term, pod)) addGroup(state, group, term, sums, term.weight);
            for (const term of unwanted) if (selects(term, pod)) addGroup(state, group, term, sums, -term.weight);
          }
        }
        if (sums.empty) return skip;
        state.write(scoring, sums);
        return success;
      },
      score: (state, _pod, node) => state.read<Sums>(scoring)?.total(node) ?? 0,
      normalize(_state, _pod, _nodes, scores) {
        let least = Number.POSITIVE_INFINITY;
        let most = Number.NEGATIVE_INFINITY;
        for (const score of scores) {
          least = Math.min(least, score);
          most = Math.max(most, score);
        }
        for (let index = 0; index < scores.length; index++)
          scores[index] = most > least ? Math.floor((100 * ((scores[index] ?? 0) - least)) / (most - least)) : 0;
      },
    }));
  },
});
