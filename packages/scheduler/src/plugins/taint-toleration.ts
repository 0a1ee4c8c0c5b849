import { findUntoleratedTaint, toleratesTaint } from '@oarlock/api/component-helpers/tolerations';
import type { Taint, Toleration } from '@oarlock/api/types/core-v1';
import { Scheduling, skip, success, unschedulableAndUnresolvable, type NodeInfo, type SchedulingPlugin } from '@oarlock/spi/scheduling';
import { z } from 'zod';
import { nodeEvent } from './helper/node-events.ts';
import { defaultNormalizeScore } from './helper/normalize-score.ts';

const filteredEffects: ReadonlySet<string> = new Set(['NoSchedule', 'NoExecute']);
const scoredEffect = 'PreferNoSchedule';
const preScoreKey = Symbol('TaintToleration');
const isScored = ({ effect }: Taint) => effect === scoredEffect;
const hasScoredTaint = ({ taints }: NodeInfo) => taints.some(isScored);

/** Rejects nodes with untolerated NoSchedule or NoExecute taints; prefers nodes with few untolerated PreferNoSchedule taints. */
export const taintToleration = Scheduling.plugin({
  id: 'scheduling-taint-toleration',
  config: z.strictObject({}),
  create: (): SchedulingPlugin => ({
    name: 'TaintToleration',
    weight: 3,
    eventsToRegister: [
      nodeEvent(
        ['taints'],
        ({ spec }, node) => findUntoleratedTaint(node.spec?.taints, spec?.tolerations ?? [], filteredEffects) === undefined,
      ),
    ],
    filter(_state, { pod }, { taints }) {
      if (taints.length === 0) return success;
      const taint = findUntoleratedTaint(taints, pod.spec?.tolerations ?? [], filteredEffects);
      return taint === undefined ? success : unschedulableAndUnresolvable(`node(s) had untolerated taint(s)`);
    },
    preScore(state, { pod }, nodes) {
      if (!nodes.some(hasScoredTaint)) return skip;
      state.write(
        preScoreKey,
        (pod.spec?.tolerations ?? []).filter(({ effect = '' }) => effect === '' || effect === scoredEffect),
      );
      return success;
    },
    score(state, _pod, { taints }) {
      const tolerations = state.read<readonly Toleration[]>(preScoreKey) ?? [];
      return taints.filter((taint) => isScored(taint) && !tolerations.some((toleration) => toleratesTaint(toleration, taint))).length;
    },
    normalizeScore: (_state, _pod, _nodes, scores) => defaultNormalizeScore(scores, true),
  }),
});
