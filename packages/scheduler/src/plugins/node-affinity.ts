import type { NodeAffinity, NodeSelectorTerm, Pod, PreferredSchedulingTerm } from '@oarlock/api/types/core-v1';
import { Scheduling, skip, success, unresolvable, type SchedulingPlugin } from '@oarlock/spi/scheduling';
import { z } from 'zod';
import { configurable } from '../plugin-args.ts';
import { matchesRequired, matchesSelector, matchesTerm } from './node-affinity-match.ts';
import { onNode } from './node-changes.ts';
import { normalizeByMax } from './normalize.ts';

const requirement = z.strictObject({
  key: z.string().min(1),
  operator: z.enum(['In', 'NotIn', 'Exists', 'DoesNotExist', 'Gt', 'Lt']),
  values: z.array(z.string()).optional(),
});
const term = z.strictObject({ matchExpressions: z.array(requirement).optional(), matchFields: z.array(requirement).optional() });
const args = z.strictObject({
  /** Asked of the nodes besides what each pod asks for. */
  addedAffinity: z
    .strictObject({
      requiredDuringSchedulingIgnoredDuringExecution: z.strictObject({ nodeSelectorTerms: z.array(term).min(1) }).optional(),
      preferredDuringSchedulingIgnoredDuringExecution: z
        .array(z.strictObject({ weight: z.number().int().min(1).max(100), preference: term }))
        .default([]),
    })
    .optional(),
});

const preferences = ({ spec }: Pod): readonly PreferredSchedulingTerm[] =>
  spec?.affinity?.nodeAffinity?.preferredDuringSchedulingIgnoredDuringExecution ?? [];
/** The nodes that a term names; undefined when it does not. */
const named = ({ matchFields = [] }: NodeSelectorTerm) =>
  matchFields.find(({ key, operator }) => key === 'metadata.name' && operator === 'In')?.values;

/** The nodes a pod asks for, must and may: nodeSelector and node affinity. */
export const nodeAffinity = Scheduling.plugin({
  id: 'scheduling-node-affinity',
  config: args,
  create: ({ config }): SchedulingPlugin =>
    configurable(args, config, ({ addedAffinity }) => {
      const added = addedAffinity as NodeAffinity | undefined;
      const everywhere = added?.requiredDuringSchedulingIgnoredDuringExecution;
      const preferred = added?.preferredDuringSchedulingIgnoredDuringExecution ?? [];
      return {
        name: 'NodeAffinity',
        weight: 2,
        requeueOn: [
          onNode(['labels'], (pod, node) => (everywhere === undefined || matchesSelector(node, everywhere)) && matchesRequired(pod, node)),
        ],
        preFilter(_state, { pod }) {
          const required = pod.spec?.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution;
          if (everywhere === undefined && required === undefined && Object.keys(pod.spec?.nodeSelector ?? {}).length === 0) return skip;
          // terms that name their nodes leave no others to look at
          const names = required?.nodeSelectorTerms.map(named);
          return names !== undefined && names.length > 0 && names.every((values) => values !== undefined)
            ? { code: 'success', nodes: new Set(names.flatMap((values) => values ?? [])) }
            : success;
        },
        filter(_state, { pod }, { node }) {
          if (everywhere !== undefined && !matchesSelector(node, everywhere))
            return unresolvable("node(s) didn't match scheduler-enforced node affinity");
          return matchesRequired(pod, node) ? success : unresolvable("node(s) didn't match Pod's node affinity/selector");
        },
        preScore: (_state, { pod }) => (preferred.length + preferences(pod).length > 0 ? success : skip),
        score(_state, { pod }, { node }) {
          let sum = 0;
          for (const { weight, preference } of preferred) if (matchesTerm(node, preference)) sum += weight;
          for (const { weight, preference } of preferences(pod)) if (matchesTerm(node, preference)) sum += weight;
          return sum;
        },
        normalize: (_state, _pod, _nodes, scores) => normalizeByMax(scores, false),
      };
    }),
});
