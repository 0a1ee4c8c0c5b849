import { matchesRequiredNodeAffinity } from '@oarlock/api/component-helpers/node-affinity';
import { isTolerated } from '@oarlock/api/component-helpers/tolerations';
import type { DaemonSet } from '@oarlock/api/types/apps-v1';
import type { Node, NodeSelectorTerm, Pod, PodSpec, PodTemplateSpec, Toleration } from '@oarlock/api/types/core-v1';
import { revisionLabel } from '../history/controller-history.ts';

export const generationLabel = 'pod-template-generation';
const generationAnnotation = 'deprecated.daemonset.template.generation';

/** Tolerations that the controller adds to every daemon pod, so that the pod keeps running on nodes with these taints. */
const defaultTolerations: readonly (readonly [key: string, effect: string])[] = [
  ['node.kubernetes.io/not-ready', 'NoExecute'],
  ['node.kubernetes.io/unreachable', 'NoExecute'],
  ['node.kubernetes.io/disk-pressure', 'NoSchedule'],
  ['node.kubernetes.io/memory-pressure', 'NoSchedule'],
  ['node.kubernetes.io/pid-pressure', 'NoSchedule'],
  ['node.kubernetes.io/unschedulable', 'NoSchedule'],
];

function tolerationsOf(spec: PodSpec | undefined): readonly Toleration[] {
  const added = [
    ...defaultTolerations,
    ...(spec?.hostNetwork === true ? ([['node.kubernetes.io/network-unavailable', 'NoSchedule']] as const) : []),
  ].map(([key, effect]): Toleration => ({ key, operator: 'Exists', effect }));
  const tolerations = [...(spec?.tolerations ?? [])];
  for (const toleration of added) {
    const at = tolerations.findIndex(
      ({ key, effect, operator, value }) =>
        key === toleration.key && effect === toleration.effect && operator === toleration.operator && !value,
    );
    tolerations.splice(at === -1 ? tolerations.length : at, at === -1 ? 0 : 1, toleration);
  }
  return tolerations;
}

export interface Placement {
  /** True if a daemon pod is created on this node when the node has none. */
  readonly shouldRun: boolean;
  /** True if an existing daemon pod on this node is kept. */
  readonly shouldContinueRunning: boolean;
}

/** Returns a function that decides for a node whether a pod of the DaemonSet is created and kept there. */
export function nodeShouldRunDaemonPod({ spec }: DaemonSet): (node: Node) => Placement {
  const pod = spec?.template.spec;
  const tolerations = tolerationsOf(pod);
  return (node) => {
    if ((pod?.nodeName && pod.nodeName !== node.metadata?.name) || !matchesRequiredNodeAffinity(pod, node))
      return { shouldRun: false, shouldContinueRunning: false };
    const untolerated = (node.spec?.taints ?? []).filter(
      (taint) => (taint.effect === 'NoSchedule' || taint.effect === 'NoExecute') && !isTolerated(taint, tolerations),
    );
    return { shouldRun: untolerated.length === 0, shouldContinueRunning: untolerated.every(({ effect }) => effect !== 'NoExecute') };
  };
}

/** Returns the pod template of a DaemonSet with revision labels and default tolerations, without a node affinity for one node. */
export function daemonTemplate({ metadata, spec }: DaemonSet, hash: string): PodTemplateSpec {
  const template = spec?.template;
  const generation = metadata?.annotations?.[generationAnnotation];
  return {
    ...template,
    metadata: {
      ...template?.metadata,
      labels: { ...template?.metadata?.labels, [revisionLabel]: hash, ...(generation && { [generationLabel]: generation }) },
    },
    spec: { ...template?.spec, containers: template?.spec?.containers ?? [], tolerations: tolerationsOf(template?.spec) },
  };
}

/** Returns the pod with a required node affinity for the node's name, by which the scheduler binds the pod. */
export function withNodeAffinity(pod: Pod, node: string): Pod {
  const term: NodeSelectorTerm = { matchFields: [{ key: 'metadata.name', operator: 'In', values: [node] }] };
  return {
    ...pod,
    spec: {
      ...pod.spec,
      containers: pod.spec?.containers ?? [],
      affinity: {
        ...pod.spec?.affinity,
        nodeAffinity: {
          ...pod.spec?.affinity?.nodeAffinity,
          requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [term] },
        },
      },
    },
  };
}

/** Returns the name of the node that a daemon pod is bound to, or else the node that its node affinity requires. */
export function targetNode({ spec }: Pod): string | undefined {
  if (spec?.nodeName) return spec.nodeName;
  const terms = spec?.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms ?? [];
  for (const { matchFields = [] } of terms)
    for (const { key, operator, values = [] } of matchFields)
      if (key === 'metadata.name' && operator === 'In' && values.length === 1) return values[0];
  return undefined;
}
