import type { Pod, TopologySpreadConstraint } from '@oarlock/api/types/core-v1';
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
  type SchedulingPlugin,
} from '@oarlock/spi/scheduling';
import { z } from 'zod';
import { configurable } from '../plugin-args.ts';
import { onNode } from './node-changes.ts';
import { ownerSelector } from './owner-selector.ts';
import { compiledOnce, defaulted, hasAll, type Constraint } from './spread-constraint.ts';
import { domainCounts, type DomainCounts } from './spread-domains.ts';

const hostname = 'kubernetes.io/hostname';
const refused = "node(s) didn't match pod topology spread constraints";
const unlabelled = unresolvable(`${refused} (missing required label)`);
const skewed = unschedulable(refused);

/** What upstream's system defaulting scores pods by that say nothing themselves (KEP-1258). */
const systemDefaults: readonly TopologySpreadConstraint[] = [
  { topologyKey: hostname, whenUnsatisfiable: 'ScheduleAnyway', maxSkew: 3 },
  { topologyKey: 'topology.kubernetes.io/zone', whenUnsatisfiable: 'ScheduleAnyway', maxSkew: 5 },
];

interface Scored {
  readonly constraint: Constraint;
  readonly weight: number;
  readonly count: (node: NodeInfo, domain: string) => number;
}

const defaultConstraint = z.strictObject({
  maxSkew: z.number().int().min(1),
  topologyKey: z.string().min(1),
  whenUnsatisfiable: z.enum(['DoNotSchedule', 'ScheduleAnyway']),
});
const args = z
  .strictObject({
    /** For pods that state none, with the selector of their services and controller. */
    defaultConstraints: z.array(defaultConstraint).default([]),
    /** `System`: they are scored by hosts and zones; `List`: by `defaultConstraints`. */
    defaultingType: z.enum(['System', 'List']).default('System'),
  })
  .superRefine(({ defaultConstraints, defaultingType }, context) => {
    const complain = (path: (string | number)[], message: string) =>
      context.addIssue({ code: 'custom', path: ['defaultConstraints', ...path], message });
    if (defaultingType === 'System' && defaultConstraints.length > 0) complain([], 'when .defaultingType is System, it has to be empty');
    for (const [index, { topologyKey, whenUnsatisfiable }] of defaultConstraints.entries())
      if (defaultConstraints.findIndex((each) => each.topologyKey === topologyKey && each.whenUnsatisfiable === whenUnsatisfiable) < index)
        complain([index], `Duplicate value: {${topologyKey}, ${whenUnsatisfiable}}`);
  });

/** Holds pods of a kind apart over domains such as zones, by at most a skew (KEP-895). */
export const podTopologySpread = Scheduling.plugin({
  id: 'scheduling-pod-topology-spread',
  config: args,
  needs: { informers: Informers },
  create({ config, informers }): SchedulingPlugin {
    const filtering = Symbol('PodTopologySpread filter');
    const scoring = Symbol('PodTopologySpread score');
    const owners = ownerSelector(informers);

    const change = (state: CycleState, changed: PodInfo, info: NodeInfo, by: 1 | -1, pod: PodInfo) => {
      const all = state.read<readonly DomainCounts[]>(filtering) ?? [];
      if (changed.pod.metadata?.namespace !== pod.pod.metadata?.namespace) return;
      if (
        !hasAll(
          info,
          all.map(({ constraint }) => constraint),
        )
      )
        return;
      for (const each of all) {
        const { constraint } = each;
        if (constraint.includes?.(info.node) === false || !constraint.selection.selects(changed.pod)) continue;
        each.change(info.label(constraint.key) ?? '', by);
      }
    };

    const make = ({ defaultingType, defaultConstraints }: z.output<typeof args>): SchedulingPlugin => {
      const defaults = defaultingType === 'System' ? systemDefaults : defaultConstraints;
      const constraintsOf = (pod: Pod, when: string): readonly Constraint[] => {
        if ((pod.spec?.topologySpreadConstraints?.length ?? 0) > 0) return compiledOnce(pod, when);
        const meant = defaults.filter(({ whenUnsatisfiable }) => whenUnsatisfiable === when);
        const selector = meant.length === 0 ? undefined : owners.selectorOf(pod);
        return selector === undefined ? [] : meant.map((each) => defaulted(pod, each, selector));
      };

      return {
        name: 'PodTopologySpread',
        weight: 2,
        requeueOn: [
          {
            kind: 'AssignedPod',
            on: ['added', 'updated', 'deleted'],
            hint(pod, old, now) {
              if (((now ?? old) as Pod).metadata?.namespace !== pod.metadata?.namespace) return 'skip';
              const counts = (each: unknown, { selection }: Constraint) => each !== undefined && selection.selects(each as Pod);
              return constraintsOf(pod, 'DoNotSchedule').some((each) => counts(old, each) !== counts(now, each)) ? 'queue' : 'skip';
            },
          },
          onNode(['labels', 'taints']),
          { kind: 'Node', on: ['deleted'] },
        ],
        ready: (signal) => owners.ready(signal),

        preFilter(state, { pod }) {
          const constraints = constraintsOf(pod, 'DoNotSchedule');
          if (constraints.length === 0) return skip;
          state.write<readonly DomainCounts[]>(
            filtering,
            constraints.map((constraint) => domainCounts(constraint, constraints, pod, state.snapshot)),
          );
          return success;
        },
        addPod: (state, pod, added, node) => change(state, added, node, 1, pod),
        removePod: (state, pod, removed, node) => change(state, removed, node, -1, pod),

        filter(state, _pod, info) {
          for (const each of state.read<readonly DomainCounts[]>(filtering) ?? []) {
            const { constraint, self } = each;
            const domain = info.label(constraint.key);
            if (domain === undefined) return unlabelled;
            if (each.of(domain) + self - each.fewest > constraint.maxSkew) return skewed;
          }
          return success;
        },

        preScore(state, { pod }, nodes) {
          // nodes without a zone take part in what the system does by itself
          const isStated = defaultingType === 'List' || (pod.spec?.topologySpreadConstraints?.length ?? 0) > 0;
          const constraints = constraintsOf(pod, 'ScheduleAnyway');
          if (constraints.length === 0) return skip;
          const counted = isStated ? nodes.filter((info) => hasAll(info, constraints)) : nodes;
          const scored = constraints.map((constraint): Scored => {
            const { key, selection, includes } = constraint;
            if (key === hostname) {
              const byNode = state.snapshot.count(selection);
              return { constraint, weight: Math.log(counted.length + 2), count: ({ name }) => byNode.get(name) ?? 0 };
            }
            const byDomain = new Map<string, number>();
            for (const info of counted) {
              const domain = info.label(key);
              if (domain !== undefined) byDomain.set(domain, 0);
            }
            const weight = Math.log(byDomain.size + 2);
            if (includes === undefined && (!isStated || constraints.length === 1)) {
              const sums = state.snapshot.countBy(selection, key);
              return { constraint, weight, count: (_node, domain) => sums.get(domain) ?? 0 };
            }
            for (const [name, count] of state.snapshot.count(selection)) {
              const info = state.snapshot.get(name);
              if (info === undefined || (isStated && !hasAll(info, constraints)) || includes?.(info.node) === false) continue;
              const domain = info.label(key) ?? '';
              const before = byDomain.get(domain);
              if (before !== undefined) byDomain.set(domain, before + count);
            }
            return { constraint, weight, count: (_node, domain) => byDomain.get(domain) ?? 0 };
          });
          state.write(scoring, { scored, ignored: isStated ? (info: NodeInfo) => !hasAll(info, constraints) : undefined });
          return success;
        },
        score(state, _pod, info) {
          const { scored, ignored } = state.read<Scoring>(scoring) ?? none;
          if (ignored?.(info)) return 0;
          let sum = 0;
          for (const { constraint, weight, count } of scored) {
            const domain = info.label(constraint.key);
            if (domain !== undefined) sum += count(info, domain) * weight + (constraint.maxSkew - 1);
          }
          return Math.round(sum);
        },
        normalize(state, _pod, nodes, scores) {
          const { ignored } = state.read<Scoring>(scoring) ?? none;
          let least = Number.POSITIVE_INFINITY;
          let most = 0;
          const isIgnored = (index: number) => {
            const info = nodes[index];
            return ignored !== undefined && info !== undefined && ignored(info);
          };
          for (let index = 0; index < scores.length; index++) {
            if (isIgnored(index)) continue;
            least = Math.min(least, scores[index] ?? 0);
            most = Math.max(most, scores[index] ?? 0);
          }
          for (let index = 0; index < scores.length; index++)
            scores[index] = isIgnored(index) ? 0 : most === 0 ? 100 : Math.floor((100 * (most + least - (scores[index] ?? 0))) / most);
        },
      };
    };
    return configurable(args, config, make);
  },
});

interface Scoring {
  readonly scored: readonly Scored[];
  /** Undefined: none is. */
  readonly ignored: ((info: NodeInfo) => boolean) | undefined;
}
const none: Scoring = { scored: [], ignored: undefined };
