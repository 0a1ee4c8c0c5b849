import type { DaemonSet } from '@oarlock/api/types/apps-v1';
import type { Node, NodeSelectorTerm, Pod, PodSpec, PodTemplateSpec, Toleration } from '@oarlock/api/types/core-v1';
import { fitsNode } from '../node-affinity.ts';
import { revisionLabel } from '../revision-history.ts';
import { isTolerated } from '../tolerations.ts';

export const generationLabel = 'pod-template-generation';
const generationAnnotation = 'deprecated.daemonset.template.generation';

/** What every daemon pod stands: it is to be where the node has its troubles. */
const standing: readonly (readonly [key: string, effect: string])[] = [
  ['node.kubernetes.io/not-ready', 'NoExecute'],
  ['node.kubernetes.io/unreachable', 'NoExecute'],
  ['node.kubernetes.io/disk-pressure', 'NoSchedule'],
  ['node.kubernetes.io/memory-pressure', 'NoSchedule'],
  ['node.kubernetes.io/pid-pressure', 'NoSchedule'],
  ['node.kubernetes.io/unschedulable', 'NoSchedule'],
];

function tolerationsOf(spec: PodSpec | undefined): readonly Toleration[] {
  const added = [
    ...standing,
    ...(spec?.hostNetwork === true ? ([['node.kubernetes.io/network-unavailable', 'NoSchedule']] as const) : []),
  ].map(([key, effect]): Toleration => ({ key, operator: 'Exists', effect }));
  const same = (a: Toleration, b: Toleration) => a.key === b.key && a.effect === b.effect && a.operator === b.operator && !a.value;
  return [...(spec?.tolerations ?? []).filter((own) => !added.some((toleration) => same(own, toleration))), ...added];
}

export interface Placement {
  /** A pod is to be made here when there is none. */
  readonly run: boolean;
  /** A pod that is here may stay. */
  readonly stay: boolean;
}

/** Says for each node whether the set wants a pod there. */
export function placementOf({ spec }: DaemonSet): (node: Node) => Placement {
  const pod = spec?.template.spec;
  const tolerations = tolerationsOf(pod);
  return (node) => {
    if ((pod?.nodeName && pod.nodeName !== node.metadata?.name) || !fitsNode(pod, node)) return { run: false, stay: false };
    const pushed = (node.spec?.taints ?? []).filter(
      (taint) => (taint.effect === 'NoSchedule' || taint.effect === 'NoExecute') && !isTolerated(taint, tolerations),
    );
    return { run: pushed.length === 0, stay: pushed.every(({ effect }) => effect !== 'NoExecute') };
  };
}

/** The template of the pods of a set: with its revision and tolerations, for any node. */
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

/** The pod bound for one node, by affinity to its name: the scheduler does the binding. */
export function forNode(pod: Pod, node: string): Pod {
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

/** The node a daemon pod is on or meant for. */
export function targetNode({ spec }: Pod): string | undefined {
  if (spec?.nodeName) return spec.nodeName;
  const terms = spec?.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms ?? [];
  for (const { matchFields = [] } of terms)
    for (const { key, operator, values = [] } of matchFields)
      if (key === 'metadata.name' && operator === 'In' && values.length === 1) return values[0];
  return undefined;
}
