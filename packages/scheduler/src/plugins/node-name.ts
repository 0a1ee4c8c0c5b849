import { Scheduling, skip, success, unschedulableAndUnresolvable, type SchedulingPlugin } from '@oarlock/spi/scheduling';
import { z } from 'zod';
import { nodeEvent } from './helper/node-events.ts';

/** Accepts only the node that `spec.nodeName` names. */
export const nodeName = Scheduling.plugin({
  id: 'scheduling-node-name',
  config: z.strictObject({}),
  create: (): SchedulingPlugin => ({
    name: 'NodeName',
    eventsToRegister: [nodeEvent([], (pod, { metadata }) => metadata?.name === pod.spec?.nodeName)],
    preFilter: (_state, { pod }) => (pod.spec?.nodeName ? success : skip),
    filter: (_state, { pod }, node) =>
      pod.spec?.nodeName === node.name ? success : unschedulableAndUnresolvable("node(s) didn't match the requested node name"),
  }),
});
