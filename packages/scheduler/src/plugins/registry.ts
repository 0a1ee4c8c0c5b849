import type { Plugin } from '@oarlock/kernel/plugin';
import { defaultBinder } from './default-binder.ts';
import { defaultPreemption } from './default-preemption/default-preemption.ts';
import { dynamicResources } from './dynamic-resources/dynamic-resources.ts';
import { gangScheduling } from './gang-scheduling.ts';
import { imageLocality } from './image-locality.ts';
import { interPodAffinity } from './inter-pod-affinity/inter-pod-affinity.ts';
import { nodeAffinity } from './node-affinity.ts';
import { nodeDeclaredFeatures } from './node-declared-features.ts';
import { nodeName } from './node-name.ts';
import { nodePorts } from './node-ports.ts';
import { nodeResourcesBalancedAllocation, nodeResourcesFit } from './node-resources/node-resources.ts';
import { nodeUnschedulable } from './node-unschedulable.ts';
import { podTopologySpread } from './pod-topology-spread/pod-topology-spread.ts';
import { prioritySort } from './priority-sort.ts';
import { schedulingGates } from './scheduling-gates.ts';
import { taintToleration } from './taint-toleration.ts';
import { nodeVolumeLimits } from './volumes/node-volume-limits.ts';
import { volumeBinding } from './volumes/volume-binding.ts';
import { volumeRestrictions } from './volumes/volume-restrictions.ts';
import { volumeZone } from './volumes/volume-zone.ts';

/** The in-tree plugins by name, in the order of upstream's default profile. */
export const inTreePlugins: Readonly<Record<string, Plugin>> = {
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
  // before DefaultPreemption: releasing unused devices is preferred to preempting pods
  DynamicResources: dynamicResources,
  DefaultPreemption: defaultPreemption,
  NodeResourcesBalancedAllocation: nodeResourcesBalancedAllocation,
  ImageLocality: imageLocality,
  DefaultBinder: defaultBinder,
  GangScheduling: gangScheduling,
};

/** The default chain of scheduling plugins. A plugin in `cluster.yaml` with the same name replaces the default plugin. */
export const builtin: readonly Plugin[] = Object.entries(inTreePlugins).map(([name, plugin]) => ({
  ...plugin,
  declares: { ...plugin.declares, plugin: name },
}));
