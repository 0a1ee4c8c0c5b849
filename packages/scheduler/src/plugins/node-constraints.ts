import type { Toleration } from '@oarlock/api/types/core-v1';
import { Scheduling, skip, success, unresolvable, type SchedulingPlugin } from '@oarlock/spi/scheduling';
import { z } from 'zod';
import { matchesRequired, matchesTerm } from './node-affinity-match.ts';
import { normalizeByMax } from './normalize.ts';
import { tolerates, untolerated } from './tolerations.ts';

const noConfig = z.strictObject({});
const nodeChanges = [{ kind: 'Node', on: ['added', 'updated'] as const }];
const unschedulableTaint = { key: 'node.kubernetes.io/unschedulable', effect: 'NoSchedule' };

export const nodeUnschedulable = Scheduling.plugin({
  id: 'scheduling-node-unschedulable',
  config: noConfig,
  create: (): SchedulingPlugin => ({
    name: 'NodeUnschedulable',
    requeueOn: nodeChanges,
    filter: (_state, { pod }, { node }) =>
      node.spec?.unschedulable !== true || pod.spec?.tolerations?.some((toleration) => tolerates(toleration, unschedulableTaint))
        ? success
        : unresolvable('node(s) were unschedulable'),
  }),
});

const hard: ReadonlySet<string> = new Set(['NoSchedule', 'NoExecute']);
const soft: ReadonlySet<string> = new Set(['PreferNoSchedule']);
const softTolerations = Symbol('TaintToleration');

export const taintToleration = Scheduling.plugin({
  id: 'scheduling-taint-toleration',
  config: noConfig,
  create: (): SchedulingPlugin => ({
    name: 'TaintToleration',
    weight: 3,
    requeueOn: nodeChanges,
    filter(_state, { pod }, { node }) {
      const taints = node.spec?.taints;
      if (taints === undefined || taints.length === 0) return success;
      const taint = untolerated(taints, pod.spec?.tolerations ?? [], hard);
      return taint === undefined ? success : unresolvable(`node(s) had untolerated taint(s)`);
    },
    preScore(state, { pod }, nodes) {
      if (!nodes.some(({ node }) => node.spec?.taints?.some(({ effect }) => soft.has(effect)))) return skip;
      state.write(
        softTolerations,
        (pod.spec?.tolerations ?? []).filter(({ effect = '' }) => effect === '' || soft.has(effect)),
      );
      return success;
    },
    score(state, _pod, { node }) {
      const tolerations = state.read<readonly Toleration[]>(softTolerations) ?? [];
      return (node.spec?.taints ?? []).filter(
        (taint) => soft.has(taint.effect) && !tolerations.some((toleration) => tolerates(toleration, taint)),
      ).length;
    },
    normalize: (_state, _pod, _nodes, scores) => normalizeByMax(scores, true),
  }),
});

export const nodeAffinity = Scheduling.plugin({
  id: 'scheduling-node-affinity',
  config: noConfig,
  create: (): SchedulingPlugin => ({
    name: 'NodeAffinity',
    weight: 2,
    requeueOn: nodeChanges,
    preFilter(_state, { pod }) {
      const required = pod.spec?.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution;
      if (required === undefined && Object.keys(pod.spec?.nodeSelector ?? {}).length === 0) return skip;
      // terms that name their nodes leave no others to look at
      const named = required?.nodeSelectorTerms.map(
        ({ matchFields = [] }) => matchFields.find(({ key, operator }) => key === 'metadata.name' && operator === 'In')?.values,
      );
      return named !== undefined && named.length > 0 && named.every((values) => values !== undefined)
        ? { code: 'success', nodes: new Set(named.flatMap((values) => values ?? [])) }
        : success;
    },
    filter: (_state, { pod }, { node }) =>
      matchesRequired(pod, node) ? success : unresolvable("node(s) didn't match Pod's node affinity/selector"),
    preScore: (_state, { pod }) =>
      (pod.spec?.affinity?.nodeAffinity?.preferredDuringSchedulingIgnoredDuringExecution?.length ?? 0) > 0 ? success : skip,
    score: (_state, { pod }, { node }) =>
      (pod.spec?.affinity?.nodeAffinity?.preferredDuringSchedulingIgnoredDuringExecution ?? []).reduce(
        (sum, { weight, preference }) => sum + (matchesTerm(node, preference) ? weight : 0),
        0,
      ),
    normalize: (_state, _pod, _nodes, scores) => normalizeByMax(scores, false),
  }),
});
