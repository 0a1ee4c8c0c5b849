import { toleratesTaint } from '@oarlock/api/component-helpers/tolerations';
import type { Pod } from '@oarlock/api/types/core-v1';
import { Scheduling, success, unschedulableAndUnresolvable, type SchedulingPlugin } from '@oarlock/spi/scheduling';
import { z } from 'zod';
import { nodeEvent } from './helper/node-events.ts';

const unschedulableTaint = { key: 'node.kubernetes.io/unschedulable', effect: 'NoSchedule' };
const toleratesUnschedulable = ({ spec }: Pod, isUnschedulable: boolean): boolean =>
  !isUnschedulable || spec?.tolerations?.some((toleration) => toleratesTaint(toleration, unschedulableTaint)) === true;

/** Rejects nodes with `spec.unschedulable` unless the pod tolerates the taint `node.kubernetes.io/unschedulable`. */
export const nodeUnschedulable = Scheduling.plugin({
  id: 'scheduling-node-unschedulable',
  config: z.strictObject({}),
  create: (): SchedulingPlugin => ({
    name: 'NodeUnschedulable',
    eventsToRegister: [nodeEvent(['taints'], (pod, { spec }) => toleratesUnschedulable(pod, spec?.unschedulable === true))],
    filter: (_state, { pod }, node) =>
      toleratesUnschedulable(pod, node.unschedulable) ? success : unschedulableAndUnresolvable('node(s) were unschedulable'),
  }),
});
