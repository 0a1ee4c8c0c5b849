import { matchesNodeSelector, matchesNodeSelectorTerm, matchesRequiredNodeAffinity } from '@oarlock/api/component-helpers/node-affinity';
import type { NodeAffinity, NodeSelectorTerm, Pod, PreferredSchedulingTerm } from '@oarlock/api/types/core-v1';
import { Scheduling, skip, success, unschedulableAndUnresolvable, type SchedulingPlugin } from '@oarlock/spi/scheduling';
import { z } from 'zod';
import { withConfigurableArgs } from './helper/plugin-args.ts';
import { nodeEvent } from './helper/node-events.ts';
import { defaultNormalizeScore } from './helper/normalize-score.ts';

const requirement = z.strictObject({
  key: z.string().min(1),
  operator: z.enum(['In', 'NotIn', 'Exists', 'DoesNotExist', 'Gt', 'Lt']),
  values: z.array(z.string()).optional(),
});
const term = z.strictObject({ matchExpressions: z.array(requirement).optional(), matchFields: z.array(requirement).optional() });
const args = z.strictObject({
  /** Node affinity that applies to all pods in addition to `spec.affinity`. */
  addedAffinity: z
    .strictObject({
      requiredDuringSchedulingIgnoredDuringExecution: z.strictObject({ nodeSelectorTerms: z.array(term).min(1) }).optional(),
      preferredDuringSchedulingIgnoredDuringExecution: z
        .array(z.strictObject({ weight: z.number().int().min(1).max(100), preference: term }))
        .default([]),
    })
    .optional(),
});

const preferredTerms = ({ spec }: Pod): readonly PreferredSchedulingTerm[] =>
  spec?.affinity?.nodeAffinity?.preferredDuringSchedulingIgnoredDuringExecution ?? [];
/** Returns the node names that a node selector term requires by all of its matchFields, or undefined if the term requires none. */
function matchFieldNodeNames({ matchFields = [] }: NodeSelectorTerm): readonly string[] | undefined {
  let names: readonly string[] | undefined;
  for (const { key, operator, values = [] } of matchFields)
    if (key === 'metadata.name' && operator === 'In') names = names === undefined ? values : names.filter((name) => values.includes(name));
  return names;
}

/** Filters and scores nodes by the nodeSelector and node affinity of the pod. */
export const nodeAffinity = Scheduling.plugin({
  id: 'scheduling-node-affinity',
  config: args,
  create: ({ config }): SchedulingPlugin =>
    withConfigurableArgs(args, config, ({ addedAffinity }) => {
      const added = addedAffinity as NodeAffinity | undefined;
      const addedRequired = added?.requiredDuringSchedulingIgnoredDuringExecution;
      const preferred = added?.preferredDuringSchedulingIgnoredDuringExecution ?? [];
      return {
        name: 'NodeAffinity',
        weight: 2,
        eventsToRegister: [
          nodeEvent(
            ['labels'],
            (pod, node) =>
              (addedRequired === undefined || matchesNodeSelector(addedRequired, node)) && matchesRequiredNodeAffinity(pod.spec, node),
          ),
        ],
        preFilter(_state, { pod }) {
          const required = pod.spec?.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution;
          if (addedRequired === undefined && required === undefined && Object.keys(pod.spec?.nodeSelector ?? {}).length === 0) return skip;
          // if every term requires node names, only these nodes have to be evaluated
          const names = required?.nodeSelectorTerms.map(matchFieldNodeNames);
          if (names === undefined || names.length === 0 || names.some((values) => values === undefined)) return success;
          const nodes = new Set(names.flatMap((values) => values ?? []));
          return nodes.size === 0 ? unschedulableAndUnresolvable('pod affinity terms conflict') : { code: 'success', nodes };
        },
        filter(_state, { pod }, { node }) {
          if (addedRequired !== undefined && !matchesNodeSelector(addedRequired, node))
            return unschedulableAndUnresolvable("node(s) didn't match scheduler-enforced node affinity");
          return matchesRequiredNodeAffinity(pod.spec, node)
            ? success
            : unschedulableAndUnresolvable("node(s) didn't match Pod's node affinity/selector");
        },
        preScore: (_state, { pod }) => (preferred.length + preferredTerms(pod).length > 0 ? success : skip),
        score(_state, { pod }, { node }) {
          let sum = 0;
          for (const { weight, preference } of preferred) if (matchesNodeSelectorTerm(preference, node)) sum += weight;
          for (const { weight, preference } of preferredTerms(pod)) if (matchesNodeSelectorTerm(preference, node)) sum += weight;
          return sum;
        },
        normalizeScore: (_state, _pod, _nodes, scores) => defaultNormalizeScore(scores, false),
      };
    }),
});
