import { summarizePod } from '@oarlock/apiserver/endpoints/negotiation/table/pods';
import type { Node, Pod } from '@oarlock/api/types/core-v1';
import { milliValue, quantityValue } from '@oarlock/api/values/quantity';
import { nodeStatusOf } from '../node-table.ts';
import type { ControlPlaneFacts } from './control-plane.ts';
import type { Usage, UsageSnapshot } from './usage.ts';

export interface NodeFacts {
  readonly name: string;
  /** As kubectl prints it, such as `Ready,SchedulingDisabled`. */
  readonly status: string;
  readonly pods: number;
  /** Absent without metrics of the node. */
  readonly cpuMillicores?: number;
  readonly cpuPercent?: number;
  readonly memoryBytes?: number;
  readonly memoryPercent?: number;
}
export interface PodFacts {
  readonly namespace: string;
  readonly name: string;
  readonly ready: number;
  readonly containers: number;
  readonly status: string;
  readonly restarts: number;
  readonly node: string;
  /** Absent without metrics of the pod. */
  readonly cpuMillicores?: number;
  readonly memoryBytes?: number;
}
export interface TopFacts {
  readonly nodes: readonly NodeFacts[];
  readonly pods: readonly PodFacts[];
  readonly controlPlane: ControlPlaneFacts;
  /** Why there are no figures of use, if there are none. */
  readonly metricsMissing?: string;
  /** Why there are no nodes, if the user may not list them. */
  readonly nodesMissing?: string;
}

export interface TopSources {
  readonly nodes: readonly Node[];
  readonly pods: readonly Pod[];
  readonly usage: UsageSnapshot;
  readonly controlPlane: ControlPlaneFacts;
  readonly nodesMissing?: string | undefined;
}

const percent = (part: number, whole: number): number => (whole <= 0 ? 0 : Math.round((100 * part) / whole));

/** Returns what the tables show. Objects are unsorted. */
export function topFacts({ nodes, pods, usage, controlPlane, nodesMissing }: TopSources): TopFacts {
  const podsOn = new Map<string, number>();
  for (const { spec, status } of pods)
    if (spec?.nodeName !== undefined && status?.phase !== 'Succeeded' && status?.phase !== 'Failed')
      podsOn.set(spec.nodeName, (podsOn.get(spec.nodeName) ?? 0) + 1);
  return {
    nodes: nodes.map((node) =>
      nodeFacts(node, { pods: podsOn.get(node.metadata?.name ?? '') ?? 0, usage: usage.nodes.get(node.metadata?.name ?? '') }),
    ),
    pods: pods.map((pod) => podFacts(pod, usage.pods.get(`${pod.metadata?.namespace ?? ''}/${pod.metadata?.name ?? ''}`))),
    controlPlane,
    ...(usage.missing !== undefined && { metricsMissing: usage.missing }),
    ...(nodesMissing !== undefined && { nodesMissing }),
  };
}

/** Percentages are those of `kubectl top nodes`: of what pods can use. */
function nodeFacts(node: Node, { pods, usage }: { readonly pods: number; readonly usage: Usage | undefined }): NodeFacts {
  const { cpu = '0', memory = '0' } = node.status?.allocatable ?? {};
  return {
    name: node.metadata?.name ?? '',
    status: nodeStatusOf(node),
    pods,
    ...(usage && {
      ...usage,
      cpuPercent: percent(usage.cpuMillicores, milliValue(cpu)),
      memoryPercent: percent(usage.memoryBytes, quantityValue(memory)),
    }),
  };
}

function podFacts(pod: Pod, usage: Usage | undefined): PodFacts {
  const { reason, ready, total, restarts } = summarizePod(pod);
  return {
    namespace: pod.metadata?.namespace ?? '',
    name: pod.metadata?.name ?? '',
    ready,
    containers: total,
    status: reason,
    restarts,
    node: pod.spec?.nodeName ?? '',
    ...usage,
  };
}
