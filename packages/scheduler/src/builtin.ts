import type { Plugin } from '@oarlock/kernel/plugin';
import { imageLocality, nodeName, nodePorts, prioritySort, schedulingGates } from './plugins/basics.ts';
import { defaultBinder } from './plugins/default-binder.ts';
import { defaultPreemption } from './plugins/default-preemption.ts';
import { dynamicResources } from './plugins/devices/dynamic-resources.ts';
import { gangScheduling } from './plugins/gang-scheduling.ts';
import { interPodAffinity } from './plugins/inter-pod-affinity.ts';
import { nodeAffinity } from './plugins/node-affinity.ts';
import { nodeDeclaredFeatures } from './plugins/node-declared-features.ts';
import { nodeUnschedulable, taintToleration } from './plugins/node-constraints.ts';
import { nodeResourcesBalancedAllocation, nodeResourcesFit } from './plugins/node-resources.ts';
import { podTopologySpread } from './plugins/pod-topology-spread.ts';
import { nodeVolumeLimits } from './plugins/volumes/node-volume-limits.ts';
import { volumeBinding } from './plugins/volumes/volume-binding.ts';
import { volumeRestrictions } from './plugins/volumes/volume-restrictions.ts';
import { volumeZone } from './plugins/volumes/volume-zone.ts';

/** By the name of the scheduling plugin, in the order of upstream's default profile. */
export const builtinPlugins: Readonly<Record<string, Plugin>> = {
  SchedulingGates: schedulingGates,
  PrioritySort: prioritySort,
  NodeUnschedulable: nodeUnschedulable,
  NodeName: nodeName,
  NodeDeclaredFeatures: nodeDeclaredFeatures,
  TaintToleration: taintToleration,
  NodeAffinity: nodeAffinity,
  NodePorts: nodePorts,
  NodeResourcesFit: nodeResourcesFit,
  VolumeRestrictions: volumeRestrictions,
  NodeVolumeLimits: nodeVolumeLimits,
  VolumeBinding: volumeBinding,
  VolumeZone: volumeZone,
  PodTopologySpread: podTopologySpread,
  InterPodAffinity: interPodAffinity,
  // before preemption: it is better to give back idle devices than to end pods
  DynamicResources: dynamicResources,
  DefaultPreemption: defaultPreemption,
  NodeResourcesBalancedAllocation: nodeResourcesBalancedAllocation,
  ImageLocality: imageLocality,
  DefaultBinder: defaultBinder,
  GangScheduling: gangScheduling,
};

/** The chain of every scheduler. `cluster.yaml` replaces one by naming a plugin of the same name. */
export const builtin: readonly Plugin[] = Object.entries(builtinPlugins).map(([name, plugin]) => ({
  ...plugin,
  declares: { ...plugin.declares, plugin: name },
}));
