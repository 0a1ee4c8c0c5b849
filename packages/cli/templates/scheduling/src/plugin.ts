import { Scheduling } from '@oarlock/spi/scheduling';
import { z } from 'zod';

/** Prefers nodes with a label. */
export default Scheduling.plugin({
  id: '__ID__',
  config: z.strictObject({
    label: z.string().min(1).default('example.com/preferred'),
    weight: z.int().min(1).max(100).default(1),
  }),
  create: ({ config: { label, weight } }) => ({
    name: '__Class__',
    weight,
    // it filters out no nodes, so no event can make a pod schedulable
    eventsToRegister: [],
    score: (_state, _pod, { node }) => (node.metadata?.labels?.[label] === undefined ? 0 : 100),
  }),
});
