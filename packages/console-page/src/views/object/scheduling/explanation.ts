import type { KubeObject } from '../../../api/client.ts';
import { compareText } from '../../../components/compare-text.ts';
import type { PodSpec } from '../workload-kinds.ts';
import type { NodeChange } from './node-changes.ts';

/** The verdict of the scheduler about one node. */
export interface NodeVerdict {
  readonly node: string;
  readonly rejectedBy?: string;
  readonly reasons?: readonly string[];
  readonly score?: number;
  readonly scores?: Readonly<Record<string, number>>;
}

/** What `POST /oarlock/v1/scheduling` returns for a pod. */
export interface PodExplanation {
  readonly bound?: string;
  readonly chosen?: string;
  readonly message?: string;
  readonly nodes: readonly NodeVerdict[];
}
export interface ExplainResponse {
  readonly pods: readonly PodExplanation[];
}

/** Changes of a pod and of nodes to try. Empty text leaves the value as it is. */
export interface WhatIf {
  /** The requests of the first container, as quantities. */
  readonly cpu: string;
  readonly memory: string;
  readonly toleratesAll: boolean;
  readonly ignoresNodeSelector: boolean;
  readonly nodes: readonly NodeChange[];
}

/** Returns the pod with the changes, and without a node: the scheduler reports where such a pod would go. */
export function changedPod(pod: KubeObject, { cpu, memory, toleratesAll, ignoresNodeSelector }: Omit<WhatIf, 'nodes'>): KubeObject {
  const {
    nodeName: _,
    nodeSelector,
    affinity,
    tolerations = [],
    containers = [],
    ...spec
  } = (pod['spec'] ?? {}) as PodSpec & Record<string, unknown>;
  const requests = { ...(cpu !== '' && { cpu }), ...(memory !== '' && { memory }) };
  return {
    ...pod,
    status: {},
    spec: {
      ...spec,
      ...(!ignoresNodeSelector && { nodeSelector, affinity }),
      tolerations: toleratesAll ? [{ operator: 'Exists' }] : tolerations,
      containers: containers.map((container, index) =>
        index === 0
          ? { ...container, resources: { ...container.resources, requests: { ...container.resources?.requests, ...requests } } }
          : container,
      ),
    },
  };
}

/** Feasible nodes, the best score first, then rejected nodes, by the plugin that rejected them. */
export const sortedVerdicts = (nodes: readonly NodeVerdict[]): readonly NodeVerdict[] =>
  nodes.toSorted(
    (a, b) =>
      Number(a.rejectedBy !== undefined) - Number(b.rejectedBy !== undefined) ||
      (b.score ?? 0) - (a.score ?? 0) ||
      compareText(a.rejectedBy ?? '', b.rejectedBy ?? '') ||
      compareText(a.node, b.node),
  );

/** Returns the scores of the plugins as text, the highest first. */
export const scoresText = (scores: Readonly<Record<string, number>> = {}): string =>
  Object.entries(scores)
    .toSorted(([, a], [, b]) => b - a)
    .map(([plugin, score]) => `${plugin} ${Math.round(score)}`)
    .join(', ');
