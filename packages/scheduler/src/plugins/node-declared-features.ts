import type { Node, PodSpec } from '@oarlock/api/types/core-v1';
import { Scheduling, skip, success, unresolvable, type SchedulingPlugin } from '@oarlock/spi/scheduling';
import { z } from 'zod';
import { onNode } from './node-changes.ts';

/** What of a pod only some nodes can do, by the name under which a node declares it (KEP-5328). */
const features: Readonly<Record<string, (spec: PodSpec) => boolean>> = {
  RestartAllContainersOnContainerExits: ({ containers, initContainers = [] }) =>
    [...containers, ...initContainers].some(({ restartPolicyRules = [] }) =>
      restartPolicyRules.some(({ action }) => action === 'RestartAllContainers'),
    ),
};
const needed = (spec: PodSpec | undefined): readonly string[] =>
  spec === undefined ? [] : Object.keys(features).filter((name) => features[name]?.(spec));

const key = Symbol('NodeDeclaredFeatures');
const missingOn = ({ status }: Node, names: readonly string[]) => names.filter((name) => status?.declaredFeatures?.includes(name) !== true);

/** Keeps pods that need what not every kubelet can do to nodes that say they can. */
export const nodeDeclaredFeatures = Scheduling.plugin({
  id: 'scheduling-node-declared-features',
  config: z.strictObject({}),
  create: (): SchedulingPlugin => ({
    name: 'NodeDeclaredFeatures',
    requeueOn: [onNode(['features'], ({ spec }, node) => missingOn(node, needed(spec)).length === 0), { kind: 'Pod', on: ['updated'] }],
    preFilter(state, { pod }) {
      const names = needed(pod.spec);
      if (names.length === 0) return skip;
      state.write(key, names);
      return success;
    },
    filter(state, _pod, { node }) {
      const missing = missingOn(node, state.read<readonly string[]>(key) ?? []);
      return missing.length === 0
        ? success
        : unresolvable(`node declared features check failed - unsatisfied requirements: ${missing.join(', ')}`);
    },
  }),
});
