import type { Node, PodSpec } from '@oarlock/api/types/core-v1';
import { Scheduling, skip, success, unschedulableAndUnresolvable, type SchedulingPlugin } from '@oarlock/spi/scheduling';
import { z } from 'zod';
import { nodeEvent } from './helper/node-events.ts';

/** Functions that return whether a pod requires a feature that only some kubelets support, by the feature name that nodes declare (KEP-5328). */
const features: Readonly<Record<string, (spec: PodSpec) => boolean>> = {
  RestartAllContainersOnContainerExits: ({ containers, initContainers = [] }) =>
    [...containers, ...initContainers].some(({ restartPolicyRules = [] }) =>
      restartPolicyRules.some(({ action }) => action === 'RestartAllContainers'),
    ),
};
const requiredFeatures = (spec: PodSpec | undefined): readonly string[] =>
  spec === undefined ? [] : Object.keys(features).filter((name) => features[name]?.(spec));

const key = Symbol('NodeDeclaredFeatures');
const missingFeatures = ({ status }: Node, names: readonly string[]) =>
  names.filter((name) => status?.declaredFeatures?.includes(name) !== true);

/** The plugin NodeDeclaredFeatures: rejects nodes that do not declare the features that the pod requires. */
export const nodeDeclaredFeatures = Scheduling.plugin({
  id: 'scheduling-node-declared-features',
  config: z.strictObject({}),
  create: (): SchedulingPlugin => ({
    name: 'NodeDeclaredFeatures',
    eventsToRegister: [
      nodeEvent(['features'], ({ spec }, node) => missingFeatures(node, requiredFeatures(spec)).length === 0),
      { kind: 'Pod', actions: ['updated'] },
    ],
    preFilter(state, { pod }) {
      const names = requiredFeatures(pod.spec);
      if (names.length === 0) return skip;
      state.write(key, names);
      return success;
    },
    filter(state, _pod, { node }) {
      const missing = missingFeatures(node, state.read<readonly string[]>(key) ?? []);
      return missing.length === 0
        ? success
        : unschedulableAndUnresolvable(`node declared features check failed - unsatisfied requirements: ${missing.join(', ')}`);
    },
  }),
});
