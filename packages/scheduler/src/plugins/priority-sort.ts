import { Scheduling, type SchedulingPlugin } from '@oarlock/spi/scheduling';
import { z } from 'zod';

/** Orders pods by higher priority, then by the time they were first queued. */
export const prioritySort = Scheduling.plugin({
  id: 'scheduling-priority-sort',
  config: z.strictObject({}),
  create: (): SchedulingPlugin => ({
    name: 'PrioritySort',
    queueSort: (a, b) => (b.pod.spec?.priority ?? 0) - (a.pod.spec?.priority ?? 0) || a.queuedAt - b.queuedAt,
  }),
});
