import type { Taint, Toleration } from '@oarlock/api/types/core-v1';
import { Scheduling, skip, success, unresolvable, type NodeInfo, type SchedulingPlugin } from '@oarlock/spi/scheduling';
import { z } from 'zod';
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
    filter: (_state, { pod }, node) =>
      !node.unschedulable || pod.spec?.tolerations?.some((toleration) => tolerates(toleration, unschedulableTaint))
        ? success
        : unresolvable('node(s) were unschedulable'),
  }),
});

const hard: ReadonlySet<string> = new Set(['NoSchedule', 'NoExecute']);
const soft: ReadonlySet<string> = new Set(['PreferNoSchedule']);
const softTolerations = Symbol('TaintToleration');
const isSoft = ({ effect }: Taint) => soft.has(effect);
const hasSoftTaint = ({ taints }: NodeInfo) => taints.some(isSoft);

export const taintToleration = Scheduling.plugin({
  id: 'scheduling-taint-toleration',
  config: noConfig,
  create: (): SchedulingPlugin => ({
    name: 'TaintToleration',
    weight: 3,
    requeueOn: nodeChanges,
    filter(_state, { pod }, { taints }) {
      if (taints.length === 0) return success;
      const taint = untolerated(taints, pod.spec?.tolerations ?? [], hard);
      return taint === undefined ? success : unresolvable(`node(s) had untolerated taint(s)`);
    },
    preScore(state, { pod }, nodes) {
      if (!nodes.some(hasSoftTaint)) return skip;
      state.write(
        softTolerations,
        (pod.spec?.tolerations ?? []).filter(({ effect = '' }) => effect === '' || soft.has(effect)),
      );
      return success;
    },
    score(state, _pod, { taints }) {
      const tolerations = state.read<readonly Toleration[]>(softTolerations) ?? [];
      return taints.filter((taint) => soft.has(taint.effect) && !tolerations.some((toleration) => tolerates(toleration, taint))).length;
    },
    normalize: (_state, _pod, _nodes, scores) => normalizeByMax(scores, true),
  }),
});
