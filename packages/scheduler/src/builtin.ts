import type { Plugin } from '@oarlock/kernel/plugin';
import { imageLocality, nodeName, nodePorts, prioritySort, schedulingGates } from './plugins/basics.ts';
import { defaultBinder } from './plugins/default-binder.ts';
import { defaultPreemption } from './plugins/default-preemption.ts';
import { interPodAffinity } from './plugins/inter-pod-affinity.ts';
import { nodeAffinity, nodeUnschedulable, taintToleration } from './plugins/node-constraints.ts';
import { nodeResourcesBalancedAllocation, nodeResourcesFit } from './plugins/node-resources.ts';
import { podTopologySpread } from './plugins/pod-topology-spread.ts';

/** The chain of every scheduler, in the order it runs: cheap refusals first. `cluster.yaml` replaces one by naming a plugin of the same name. */
export const builtin: readonly Plugin[] = [
  schedulingGates,
  prioritySort,
  nodeUnschedulable,
  nodeName,
  taintToleration,
  nodeAffinity,
  nodePorts,
  nodeResourcesFit,
  podTopologySpread,
  interPodAffinity,
  nodeResourcesBalancedAllocation,
  imageLocality,
  defaultPreemption,
  defaultBinder,
];
