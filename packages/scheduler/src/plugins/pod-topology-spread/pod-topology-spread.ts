import type { Pod, TopologySpreadConstraint } from '@oarlock/api/types/core-v1';
import { Informers } from '@oarlock/spi/client';
import {
  Scheduling,
  skip,
  success,
  unschedulable,
  unschedulableAndUnresolvable,
  type CycleState,
  type NodeInfo,
  type PodInfo,
  type SchedulingPlugin,
  type Status,
} from '@oarlock/spi/scheduling';
import { z } from 'zod';
import { nodeEvent } from '../helper/node-events.ts';
import { withConfigurableArgs } from '../helper/plugin-args.ts';
import { countDomains, type DomainCounts } from './domain-counts.ts';
import { ownerSelector, type OwnerSelector } from './owner-selector.ts';
import { hostnameKey, normalizeSpreadScores, preScoreConstraints, scoreNode, type PreScoreState } from './spread-score.ts';
import { compileDefaultConstraint, hasAllTopologyKeys, podConstraints, type SpreadConstraint } from './spread-constraint.ts';

const constraintsNotMatched = "node(s) didn't match pod topology spread constraints";
const missingLabel = unschedulableAndUnresolvable(`${constraintsNotMatched} (missing required label)`);
const skewExceeded = unschedulable(constraintsNotMatched);

/** Upstream's system default constraints for pods without constraints (KEP-1258). */
const systemDefaults: readonly TopologySpreadConstraint[] = [
  { topologyKey: hostnameKey, whenUnsatisfiable: 'ScheduleAnyway', maxSkew: 3 },
  { topologyKey: 'topology.kubernetes.io/zone', whenUnsatisfiable: 'ScheduleAnyway', maxSkew: 5 },
];

const defaultConstraint = z.strictObject({
  maxSkew: z.number().int().min(1),
  topologyKey: z.string().min(1),
  whenUnsatisfiable: z.enum(['DoNotSchedule', 'ScheduleAnyway']),
});
const args = z
  .strictObject({
    /** Constraints for pods without topologySpreadConstraints. Their selector is that of the pod's Services and controller. */
    defaultConstraints: z.array(defaultConstraint).default([]),
    /** Constraints for pods without topologySpreadConstraints. `System`: `systemDefaults`, for scoring only; `List`: `defaultConstraints`. */
    defaultingType: z.enum(['System', 'List']).default('System'),
  })
  .superRefine(({ defaultConstraints, defaultingType }, context) => {
    const addIssue = (path: (string | number)[], message: string) =>
      context.addIssue({ code: 'custom', path: ['defaultConstraints', ...path], message });
    if (defaultingType === 'System' && defaultConstraints.length > 0) addIssue([], 'when .defaultingType is System, it must be empty');
    for (const [index, { topologyKey, whenUnsatisfiable }] of defaultConstraints.entries())
      if (defaultConstraints.findIndex((each) => each.topologyKey === topologyKey && each.whenUnsatisfiable === whenUnsatisfiable) < index)
        addIssue([index], `Duplicate value: {${topologyKey}, ${whenUnsatisfiable}}`);
  });
type Args = z.output<typeof args>;

const preFilterKey = Symbol('PodTopologySpread filter');
const preScoreKey = Symbol('PodTopologySpread score');

const hasConstraints = ({ spec }: Pod): boolean => (spec?.topologySpreadConstraints?.length ?? 0) > 0;

/**
 * The plugin PodTopologySpread: spreads pods over topology domains such as zones, so that the difference between domains is at most maxSkew
 * (KEP-895).
 */
class PodTopologySpread {
  readonly #owners: OwnerSelector;
  readonly #usesSystemDefaults: boolean;
  readonly #defaults: readonly TopologySpreadConstraint[];

  constructor(owners: OwnerSelector, { defaultingType, defaultConstraints }: Args) {
    this.#owners = owners;
    this.#usesSystemDefaults = defaultingType === 'System';
    this.#defaults = this.#usesSystemDefaults ? systemDefaults : defaultConstraints;
  }

  plugin(): SchedulingPlugin {
    return {
      name: 'PodTopologySpread',
      weight: 2,
      eventsToRegister: [
        {
          kind: 'AssignedPod',
          actions: ['added', 'updated', 'deleted'],
          queueingHint: (pod, old, now) => this.#assignedPodHint(pod, old as Pod | undefined, now as Pod | undefined),
        },
        nodeEvent(['labels', 'taints']),
        { kind: 'Node', actions: ['deleted'] },
      ],
      whenSynced: (signal) => this.#owners.whenSynced(signal),
      preFilter: (state, pod) => this.#preFilter(state, pod),
      addPod: (state, pod, added, node) => updateCounts(state, pod, added, node, 1),
      removePod: (state, pod, removed, node) => updateCounts(state, pod, removed, node, -1),
      filter: (state, _pod, node) => filterNode(state, node),
      preScore: (state, pod, nodes) => this.#preScore(state, pod, nodes),
      score: (state, _pod, node) => scoreNode(state.read<PreScoreState>(preScoreKey), node),
      normalizeScore: (state, _pod, nodes, scores) => normalizeSpreadScores(state.read<PreScoreState>(preScoreKey), nodes, scores),
    };
  }

  /** Returns the constraints of the pod, or the default constraints with the selector of the pod's Services and controller. */
  #constraintsOf(pod: Pod, whenUnsatisfiable: string): readonly SpreadConstraint[] {
    if (hasConstraints(pod)) return podConstraints(pod, whenUnsatisfiable);
    const defaults = this.#defaults.filter((each) => each.whenUnsatisfiable === whenUnsatisfiable);
    const selector = defaults.length === 0 ? undefined : this.#owners.selectorOf(pod);
    return selector === undefined ? [] : defaults.map((each) => compileDefaultConstraint(pod, each, selector));
  }

  /**
   * Returns `queue` if the change of an assigned pod may make the pod schedulable: a constraint of the pod matches the assigned pod only before or
   * only after the change.
   */
  #assignedPodHint(pod: Pod, old: Pod | undefined, now: Pod | undefined): 'queue' | 'skip' {
    if ((now ?? old)?.metadata?.namespace !== pod.metadata?.namespace) return 'skip';
    const isSelected = (other: Pod | undefined, { selector }: SpreadConstraint) => other !== undefined && selector.matches(other);
    return this.#constraintsOf(pod, 'DoNotSchedule').some((each) => isSelected(old, each) !== isSelected(now, each)) ? 'queue' : 'skip';
  }

  #preFilter(state: CycleState, { pod }: PodInfo): Status {
    const constraints = this.#constraintsOf(pod, 'DoNotSchedule');
    if (constraints.length === 0) return skip;
    state.write<readonly DomainCounts[]>(
      preFilterKey,
      constraints.map((constraint) => countDomains(constraint, constraints, pod, state.snapshot)),
    );
    return success;
  }

  #preScore(state: CycleState, { pod }: PodInfo, nodes: readonly NodeInfo[]): Status {
    const constraints = this.#constraintsOf(pod, 'ScheduleAnyway');
    if (constraints.length === 0) return skip;
    // system defaults also score nodes that lack a topology key
    const requireAllTopologyKeys = !this.#usesSystemDefaults || hasConstraints(pod);
    state.write(preScoreKey, preScoreConstraints(state.snapshot, constraints, nodes, requireAllTopologyKeys));
    return success;
  }
}

/** Updates the preFilter state when a dry run adds or removes a pod. */
function updateCounts(state: CycleState, { pod }: PodInfo, changed: PodInfo, node: NodeInfo, by: 1 | -1): void {
  const counts = state.read<readonly DomainCounts[]>(preFilterKey) ?? [];
  if (changed.pod.metadata?.namespace !== pod.metadata?.namespace) return;
  const constraints = counts.map(({ constraint }) => constraint);
  if (!hasAllTopologyKeys(node, constraints)) return;
  for (const domainCounts of counts) {
    const { constraint } = domainCounts;
    if (constraint.countsNode?.(node.node) === false || !constraint.selector.matches(changed.pod)) continue;
    domainCounts.adjust(node.label(constraint.key) ?? '', by);
  }
}

function filterNode(state: CycleState, node: NodeInfo): Status {
  for (const counts of state.read<readonly DomainCounts[]>(preFilterKey) ?? []) {
    const { constraint, selfMatch } = counts;
    const domain = node.label(constraint.key);
    if (domain === undefined) return missingLabel;
    if (counts.of(domain) + selfMatch - counts.minCount > constraint.maxSkew) return skewExceeded;
  }
  return success;
}

export const podTopologySpread = Scheduling.plugin({
  id: 'scheduling-pod-topology-spread',
  config: args,
  needs: { informers: Informers },
  create({ config, informers }): SchedulingPlugin {
    const owners = ownerSelector(informers);
    return withConfigurableArgs(args, config, (pluginArgs) => new PodTopologySpread(owners, pluginArgs).plugin());
  },
});
