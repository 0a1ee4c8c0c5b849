import type { Pod, Taint, Toleration } from '@oarlock/api/types/core-v1';
import { Scheduling, skip, success, unresolvable, type NodeInfo, type SchedulingPlugin } from '@oarlock/spi/scheduling';
import { z } from 'zod';
import { onNode } from './node-changes.ts';
import { normalizeByMax } from './normalize.ts';
import { tolerates, untolerated } from './tolerations.ts';

const noConfig = z.strictObject({});
const unschedulableTaint = { key: 'node.kubernetes.io/unschedulable', effect: 'NoSchedule' };
const mayEnter = ({ spec }: Pod, unschedulable: boolean): boolean =>
  !unschedulable || spec?.tolerations?.some((toleration) => tolerates(toleration, unschedulableTaint)) === true;

export const nodeUnschedulable = Scheduling.plugin({
  id: 'scheduling-node-unschedulable',
  config: noConfig,
  create: (): SchedulingPlugin => ({
    name: 'NodeUnschedulable',
    requeueOn: [onNode(['taints'], (pod, { spec }) => mayEnter(pod, spec?.unschedulable === true))],
    filter: (_state, { pod }, node) => (mayEnter(pod, node.unschedulable) ? success : unresolvable('node(s) were unschedulable')),
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
    requeueOn: [onNode(['taints'], ({ spec }, node) => untolerated(node.spec?.taints, spec?.tolerations ?? [], hard) === undefined)],
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
