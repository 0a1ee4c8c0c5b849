import { pending, Scheduling, success, type SchedulingPlugin } from '@oarlock/spi/scheduling';
import { z } from 'zod';

/** Gates pods until their scheduling gates are removed (KEP-3521). */
export const schedulingGates = Scheduling.plugin({
  id: 'scheduling-gates',
  config: z.strictObject({}),
  create: (): SchedulingPlugin => ({
    name: 'SchedulingGates',
    // only an update of the pod itself can remove its gates, and the queue moves a pod after each of its own updates
    eventsToRegister: [],
    preEnqueue({ spec }) {
      const gates = spec?.schedulingGates ?? [];
      return gates.length === 0 ? success : pending(`waiting for scheduling gates: [${gates.map(({ name }) => name).join(' ')}]`);
    },
  }),
});
