import { selectorFromObject, type Selector } from '@oarlock/api/label-selector';
import type { Node, Pod, TopologySpreadConstraint } from '@oarlock/api/types/core-v1';
import { Informers } from '@oarlock/spi/client';
import {
  Scheduling,
  skip,
  success,
  unresolvable,
  unschedulable,
  type CycleState,
  type NodeInfo,
  type PodInfo,
  type PodSelection,
  type SchedulingPlugin,
} from '@oarlock/spi/scheduling';
import { z } from 'zod';
import { matchesRequired } from './node-affinity-match.ts';
import { ownerSelector } from './owner-selector.ts';
import { untolerated } from './tolerations.ts';

const hostname = 'kubernetes.io/hostname';
const refused = "node(s) didn't match pod topology spread constraints";
const hard: ReadonlySet<string> = new Set(['NoSchedule', 'NoExecute']);

/** What upstream's system defaulting scores pods by that say nothing themselves (KEP-1258). */
const systemDefaults: readonly TopologySpreadConstraint[] = [
  { topologyKey: hostname, whenUnsatisfiable: 'ScheduleAnyway', maxSkew: 3 },
  { topologyKey: 'topology.kubernetes.io/zone', whenUnsatisfiable: 'ScheduleAnyway', maxSkew: 5 },
];

interface Constraint {
  readonly key: string;
  readonly maxSkew: number;
  readonly minDomains: number;
  readonly selection: PodSelection;
  /** Whether the pods of a node count at all (KEP-3094). */
  includes(node: Node): boolean;
}

interface Filtered {
  readonly constraint: Constraint;
  readonly self: 0 | 1;
  readonly byDomain: Map<string, number>;
  /** The fewest in a domain; undefined when it is to be looked for again. */
  fewest: number | undefined;
}

interface Scored {
  readonly constraint: Constraint;
  readonly weight: number;
  readonly count: (node: NodeInfo, domain: string) => number;
}

const labelOf = ({ metadata }: Node, key: string): string | undefined => metadata?.labels?.[key];
const hasAll = (node: Node, constraints: readonly { readonly key: string }[]) =>
  constraints.every(({ key }) => labelOf(node, key) !== undefined);

function selectorOf({ metadata }: Pod, { labelSelector, matchLabelKeys = [] }: TopologySpreadConstraint): Selector {
  const own = matchLabelKeys.flatMap((key) => {
    const value = metadata?.labels?.[key];
    return value === undefined ? [] : [{ key, operator: 'In', values: [value] }];
  });
  return selectorFromObject(
    labelSelector === undefined || own.length === 0
      ? labelSelector
      : { ...labelSelector, matchExpressions: [...(labelSelector.matchExpressions ?? []), ...own] },
  );
}

function constraintOf(pod: Pod, from: TopologySpreadConstraint, selector = selectorOf(pod, from)): Constraint {
  const namespace = pod.metadata?.namespace ?? '';
  const byAffinity =
    from.nodeAffinityPolicy !== 'Ignore' &&
    (pod.spec?.nodeSelector ?? pod.spec?.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution) !== undefined;
  const byTaints = from.nodeTaintsPolicy === 'Honor';
  return {
    key: from.topologyKey,
    maxSkew: from.maxSkew,
    minDomains: from.minDomains ?? 1,
    selection: {
      key: `spread ${namespace} ${selector.none ? '<none>' : selector.toString()}`,
      namespaces: new Set([namespace]),
      selects: ({ metadata }) => metadata?.deletionTimestamp === undefined && selector.matches(metadata?.labels),
    },
    includes: (node) =>
      (!byAffinity || matchesRequired(pod, node)) &&
      (!byTaints || untolerated(node.spec?.taints, pod.spec?.tolerations ?? [], hard) === undefined),
  };
}

const own = ({ spec }: Pod, when: string) =>
  (spec?.topologySpreadConstraints ?? []).filter(({ whenUnsatisfiable }) => whenUnsatisfiable === when);

/** Holds pods of a kind apart over domains such as zones, by at most a skew (KEP-895). */
export const podTopologySpread = Scheduling.plugin({
  id: 'scheduling-pod-topology-spread',
  config: z.strictObject({
    /** `System`: pods without constraints are spread over hosts and zones like those of the same services or controller. */
    defaultingType: z.enum(['System', 'None']).default('System'),
  }),
  needs: { informers: Informers },
  create({ config: { defaultingType }, informers }): SchedulingPlugin {
    const filtering = Symbol('PodTopologySpread filter');
    const scoring = Symbol('PodTopologySpread score');
    const owners = ownerSelector(informers);

    const change = (state: CycleState, changed: PodInfo, { node }: NodeInfo, by: 1 | -1, pod: PodInfo) => {
      const all = state.read<readonly Filtered[]>(filtering) ?? [];
      if (changed.pod.metadata?.namespace !== pod.pod.metadata?.namespace) return;
      if (
        !hasAll(
          node,
          all.map(({ constraint }) => constraint),
        )
      )
        return;
      for (const each of all) {
        const { constraint, byDomain } = each;
        if (!constraint.includes(node) || !constraint.selection.selects(changed.pod)) continue;
        const domain = labelOf(node, constraint.key) ?? '';
        byDomain.set(domain, (byDomain.get(domain) ?? 0) + by);
        each.fewest = undefined;
      }
    };

    return {
      name: 'PodTopologySpread',
      weight: 2,
      requeueOn: [
        {
          kind: 'AssignedPod',
          on: ['added', 'updated', 'deleted'],
          hint: (pod, old, now) => (((now ?? old) as Pod).metadata?.namespace === pod.metadata?.namespace ? 'queue' : 'skip'),
        },
        { kind: 'Node', on: ['added', 'updated', 'deleted'] },
      ],
      ready: (signal) => owners.ready(signal),

      preFilter(state, { pod }) {
        if (pod.spec?.topologySpreadConstraints === undefined) return skip;
        const constraints = own(pod, 'DoNotSchedule').map((each) => constraintOf(pod, each));
        if (constraints.length === 0) return skip;
        const nodes = state.snapshot.nodes.filter(({ node }) => hasAll(node, constraints));
        state.write<readonly Filtered[]>(
          filtering,
          constraints.map((constraint) => {
            const byNode = state.snapshot.count(constraint.selection);
            const byDomain = new Map<string, number>();
            for (const { name, node } of nodes) {
              if (!constraint.includes(node)) continue;
              const domain = labelOf(node, constraint.key) ?? '';
              byDomain.set(domain, (byDomain.get(domain) ?? 0) + (byNode.get(name) ?? 0));
            }
            return { constraint, byDomain, self: constraint.selection.selects(pod) ? 1 : 0, fewest: undefined };
          }),
        );
        return success;
      },
      addPod: (state, pod, added, node) => change(state, added, node, 1, pod),
      removePod: (state, pod, removed, node) => change(state, removed, node, -1, pod),

      filter(state, _pod, { node }) {
        for (const each of state.read<readonly Filtered[]>(filtering) ?? []) {
          const { constraint, byDomain, self } = each;
          const domain = labelOf(node, constraint.key);
          if (domain === undefined) return unresolvable(`${refused} (missing required label)`);
          each.fewest ??= byDomain.size < constraint.minDomains ? 0 : Math.min(...byDomain.values());
          if ((byDomain.get(domain) ?? 0) + self - each.fewest > constraint.maxSkew) return unschedulable(refused);
        }
        return success;
      },

      preScore(state, { pod }, nodes) {
        const stated = (pod.spec?.topologySpreadConstraints?.length ?? 0) > 0;
        let constraints: readonly Constraint[] = [];
        if (stated) constraints = own(pod, 'ScheduleAnyway').map((each) => constraintOf(pod, each));
        else if (defaultingType === 'System') {
          const selector = owners.selectorOf(pod);
          if (selector !== undefined) constraints = systemDefaults.map((each) => constraintOf(pod, each, selector));
        }
        if (constraints.length === 0) return skip;
        const counted = stated ? nodes.filter(({ node }) => hasAll(node, constraints)) : nodes;
        const scored = constraints.map((constraint): Scored => {
          const byNode = state.snapshot.count(constraint.selection);
          if (constraint.key === hostname)
            return { constraint, weight: Math.log(counted.length + 2), count: ({ name }) => byNode.get(name) ?? 0 };
          const byDomain = new Map<string, number>();
          for (const { node } of counted) {
            const domain = labelOf(node, constraint.key);
            if (domain !== undefined) byDomain.set(domain, 0);
          }
          for (const [name, count] of byNode) {
            const node = state.snapshot.get(name)?.node;
            if (node === undefined || (stated && !hasAll(node, constraints)) || !constraint.includes(node)) continue;
            const domain = labelOf(node, constraint.key) ?? '';
            const before = byDomain.get(domain);
            if (before !== undefined) byDomain.set(domain, before + count);
          }
          return { constraint, weight: Math.log(byDomain.size + 2), count: (_node, domain) => byDomain.get(domain) ?? 0 };
        });
        state.write(scoring, { scored, ignored: stated ? (node: Node) => !hasAll(node, constraints) : () => false });
        return success;
      },
      score(state, _pod, info) {
        const { scored, ignored } = state.read<Scoring>(scoring) ?? none;
        if (ignored(info.node)) return 0;
        let sum = 0;
        for (const { constraint, weight, count } of scored) {
          const domain = labelOf(info.node, constraint.key);
          if (domain !== undefined) sum += count(info, domain) * weight + (constraint.maxSkew - 1);
        }
        return Math.round(sum);
      },
      normalize(state, _pod, nodes, scores) {
        const { ignored } = state.read<Scoring>(scoring) ?? none;
        let least = Number.POSITIVE_INFINITY;
        let most = 0;
        for (const [index, { node }] of nodes.entries()) {
          if (ignored(node)) continue;
          least = Math.min(least, scores[index] ?? 0);
          most = Math.max(most, scores[index] ?? 0);
        }
        for (const [index, { node }] of nodes.entries())
          scores[index] = ignored(node) ? 0 : most === 0 ? 100 : Math.floor((100 * (most + least - (scores[index] ?? 0))) / most);
      },
    };
  },
});

interface Scoring {
  readonly scored: readonly Scored[];
  ignored(node: Node): boolean;
}
const none: Scoring = { scored: [], ignored: () => false };
