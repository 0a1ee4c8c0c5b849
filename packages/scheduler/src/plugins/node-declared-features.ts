import { featuresForScheduling, undeclaredFeatures } from '@oarlock/api/component-helpers/declared-features';
import { Scheduling, skip, success, unschedulableAndUnresolvable, type SchedulingPlugin } from '@oarlock/spi/scheduling';
import { z } from 'zod';
import { nodeEvent } from './helper/node-events.ts';

const key = Symbol('NodeDeclaredFeatures');

/** The plugin NodeDeclaredFeatures: rejects nodes that do not declare the features that the pod requires. */
export const nodeDeclaredFeatures = Scheduling.plugin({
  id: 'scheduling-node-declared-features',
  config: z.strictObject({}),
  create: (): SchedulingPlugin => ({
    name: 'NodeDeclaredFeatures',
    eventsToRegister: [
      nodeEvent(['features'], ({ spec }, node) => spec === undefined || undeclaredFeatures(node, featuresForScheduling(spec)).length === 0),
      { kind: 'Pod', actions: ['updated'] },
    ],
    preFilter(state, { pod }) {
      const names = pod.spec === undefined ? [] : featuresForScheduling(pod.spec);
      if (names.length === 0) return skip;
      state.write(key, names);
      return success;
    },
    filter(state, _pod, { node }) {
      const missing = undeclaredFeatures(node, state.read<readonly string[]>(key) ?? []);
      return missing.length === 0
        ? success
        : unschedulableAndUnresolvable(`node declared features check failed - unsatisfied requirements: ${missing.join(', ')}`);
    },
  }),
});
