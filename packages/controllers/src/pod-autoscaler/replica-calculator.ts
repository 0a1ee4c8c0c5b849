import { isSupportedPodLevelResource, podResources } from '@oarlock/api/component-helpers/pod-resources';
import { isRestartableInitContainer } from '@oarlock/api/component-helpers/restartable-init-container';
import { milliValue } from '@oarlock/api/values/quantity';
import { parseTime } from '@oarlock/api/values/time';
import type { Container, Pod } from '@oarlock/api/types/core-v1';
import { conditionOf, isReady } from '../pods/pod-state.ts';
import type { PodMetric } from './metrics-client.ts';

export interface Tolerances {
  readonly up: number;
  readonly down: number;
}
export interface Timing {
  readonly nowMs: number;
  /** Time in milliseconds after the start of a pod during which the CPU usage of the pod is unreliable. */
  readonly cpuInitializationMs: number;
  readonly initialReadinessMs: number;
}
export interface ReplicaProposal {
  readonly replicas: number;
  /** Target utilization as a percentage of the request. */
  readonly utilization?: number;
  /** Target average value in thousandths. */
  readonly average: number;
}

export const isWithin = (ratio: number, { up, down }: Tolerances): boolean => ratio >= 1 - down && ratio <= 1 + up;

interface PodGroups {
  readonly ready: number;
  readonly unready: ReadonlySet<string>;
  readonly missing: ReadonlySet<string>;
  readonly metrics: Map<string, number>;
}

/**
 * Groups pods into ready, unready (starting), missing (without a metric) and ignored (terminating or failed) pods. As upstream, a metric of a pod that the
 * informer does not know counts.
 */
function groupPods(
  pods: readonly Pod[],
  {
    all,
    resource,
    timing,
  }: { readonly all: ReadonlyMap<string, PodMetric>; readonly resource: string | undefined; readonly timing: Timing },
): PodGroups {
  const unready = new Set<string>();
  const missing = new Set<string>();
  const metrics = new Map([...all].map(([name, { value }]) => [name, value]));
  let ready = 0;
  for (const pod of pods) {
    const name = pod.metadata?.name ?? '';
    if (pod.metadata?.deletionTimestamp !== undefined || pod.status?.phase === 'Failed') {
      metrics.delete(name);
      continue;
    }
    const metric = all.get(name);
    if (pod.status?.phase === 'Pending') unready.add(name);
    else if (metric === undefined) missing.add(name);
    else if (resource === 'cpu' && isStarting(pod, metric, timing)) unready.add(name);
    else ready += 1;
  }
  for (const name of unready) metrics.delete(name);
  return { ready, unready, missing, metrics };
}

function isStarting(pod: Pod, metric: PodMetric, { nowMs, cpuInitializationMs, initialReadinessMs }: Timing): boolean {
  const condition = conditionOf(pod, 'Ready');
  const start = parseTime(pod.status?.startTime ?? '');
  if (condition === undefined || start === undefined) return true;
  const changed = parseTime(condition.lastTransitionTime ?? '') ?? start;
  if (start + cpuInitializationMs > nowMs) return condition.status === 'False' || metric.at < changed + metric.windowMs;
  return condition.status === 'False' && start + initialReadinessMs > changed;
}

/** Returns the requests of a resource in thousandths, keyed by pod name. @throws Error if a pod has no request for the resource */
function requestsOf(pods: readonly Pod[], resource: string, container: string | undefined): ReadonlyMap<string, number> {
  const requestOf = (pod: Pod): number => {
    if (container !== undefined) return containerRequest(pod, resource, container);
    return hasPodLevelRequests(pod) ? podLevelRequest(pod, resource) : sumOfContainerRequests(pod, resource);
  };
  return new Map(pods.map((pod) => [pod.metadata?.name ?? '', requestOf(pod)]));
}

const hasPodLevelRequests = ({ spec }: Pod): boolean => Object.keys(spec?.resources?.requests ?? {}).some(isSupportedPodLevelResource);

/** Returns a request of a pod with requests at pod level (KEP-2837): resources that these do not name are requested by the containers. */
function podLevelRequest(pod: Pod, resource: string): number {
  const request = podResources(pod, 'requests').get(resource);
  if (request === undefined) throw new Error(`missing pod-level request for ${resource} in Pod ${pod.metadata?.name}`);
  return milliValue(request);
}

/** Returns the containers that run as long as the pod. */
const longRunningContainers = ({ spec }: Pod): readonly Container[] => [
  ...(spec?.containers ?? []),
  ...(spec?.initContainers ?? []).filter(isRestartableInitContainer),
];

const sumOfContainerRequests = (pod: Pod, resource: string): number =>
  longRunningContainers(pod).reduce((sum, each) => sum + requestIn(each, resource, pod), 0);

function containerRequest(pod: Pod, resource: string, name: string): number {
  const container = longRunningContainers(pod).find((each) => each.name === name);
  if (container === undefined) throw new Error(`container ${name} not found in Pod ${pod.metadata?.name}`);
  return requestIn(container, resource, pod);
}

function requestIn({ name, resources }: Container, resource: string, { metadata }: Pod): number {
  const request = resources?.requests?.[resource];
  if (request === undefined) throw new Error(`missing request for ${resource} in container ${name} of Pod ${metadata?.name}`);
  return milliValue(request);
}

const noPods = 'no pods returned by selector while calculating replica count';
const noMetrics = 'did not receive metrics for targeted pods (pods might be unready)';
const sumOf = (values: Iterable<number>) => {
  let sum = 0;
  for (const value of values) sum += value;
  return sum;
};

/** Returns the mean in whole thousandths, as upstream, which divides integers. */
const meanOf = (metrics: ReadonlyMap<string, number>): number => Math.trunc(sumOf(metrics.values()) / metrics.size);

/** The current replicas, how to compute a ratio, what a pod without metrics counts, and the tolerances. */
interface ReplicaCalculation {
  readonly current: number;
  readonly ratioOf: (metrics: ReadonlyMap<string, number>) => number;
  readonly assumedValue: (name: string) => number;
  readonly tolerances: Tolerances;
}

/** Computes the replicas. Assumes for unready pods and missing metrics the values that cause the smallest change. */
function calculateReplicas(
  { ready, unready, missing, metrics }: PodGroups,
  { current, ratioOf, assumedValue, tolerances }: ReplicaCalculation,
): number {
  const ratio = ratioOf(metrics);
  const withUnready = unready.size > 0 && ratio > 1;
  if (!withUnready && missing.size === 0) return isWithin(ratio, tolerances) ? current : Math.ceil(ratio * ready);
  for (const name of missing) {
    if (ratio < 1) metrics.set(name, assumedValue(name));
    else if (ratio > 1) metrics.set(name, 0);
  }
  if (withUnready) for (const name of unready) metrics.set(name, 0);
  const newRatio = ratioOf(metrics);
  if (isWithin(newRatio, tolerances) || (ratio < 1 && newRatio > 1) || (ratio > 1 && newRatio < 1)) return current;
  const replicas = Math.ceil(newRatio * metrics.size);
  return (newRatio < 1 && replicas > current) || (newRatio > 1 && replicas < current) ? current : replicas;
}

/** The pods, their metrics and the target utilization. */
export interface UtilizationTarget {
  readonly all: ReadonlyMap<string, PodMetric>;
  readonly current: number;
  readonly target: number;
  readonly resource: string;
  readonly container: string | undefined;
  readonly tolerances: Tolerances;
  readonly timing: Timing;
}

/** Returns the replicas at which the average utilization is `target` percent of the requests. */
export function resourceUtilizationReplicas(
  pods: readonly Pod[],
  { all, current, target, resource, container, tolerances, timing }: UtilizationTarget,
): ReplicaProposal {
  if (pods.length === 0) throw new Error(noPods);
  const groups = groupPods(pods, { all, resource, timing });
  if (groups.metrics.size === 0) throw new Error(noMetrics);
  const requests = requestsOf(pods, resource, container);
  const percent = (metrics: ReadonlyMap<string, number>) => {
    const known = [...metrics].filter(([name]) => requests.has(name));
    const requested = sumOf(known.map(([name]) => requests.get(name) ?? 0));
    if (requested === 0) throw new Error('no metrics returned matched known pods');
    return Math.trunc((sumOf(known.map(([, value]) => value)) * 100) / requested);
  };
  const utilization = percent(groups.metrics);
  const average = meanOf(new Map([...groups.metrics].filter(([name]) => requests.has(name))));
  const full = Math.max(100, target);
  const replicas = calculateReplicas(groups, {
    current,
    ratioOf: (metrics) => percent(metrics) / target,
    assumedValue: (name) => Math.trunc(((requests.get(name) ?? 0) * full) / 100),
    tolerances,
  });
  return { replicas, utilization, average };
}

/** The pods, their metrics and the target average value. */
export interface AverageValueTarget {
  readonly all: ReadonlyMap<string, PodMetric>;
  readonly current: number;
  readonly target: number;
  readonly resource: string | undefined;
  readonly tolerances: Tolerances;
  readonly timing: Timing;
}

/** Returns the replicas at which the average value is `target` thousandths. */
export function averageValueReplicas(
  pods: readonly Pod[],
  { all, current, target, resource, tolerances, timing }: AverageValueTarget,
): ReplicaProposal {
  if (pods.length === 0) throw new Error(noPods);
  const groups = groupPods(pods, { all, resource, timing });
  if (groups.metrics.size === 0) throw new Error(noMetrics);
  const average = meanOf(groups.metrics);
  return {
    replicas: calculateReplicas(groups, {
      current,
      ratioOf: (metrics) => meanOf(metrics) / target,
      assumedValue: () => target,
      tolerances,
    }),
    average,
  };
}

/**
 * Returns the replicas for one metric of the whole target: in proportion to `value`, or by `averageValue` per replica.
 * @throws Error if the target has replicas and no pods, because the number of ready pods is then unknown
 */
export function objectMetricReplicas(
  total: number,
  {
    specReplicas,
    statusReplicas,
    pods,
    value,
    averageValue,
  }: {
    readonly specReplicas: number;
    readonly statusReplicas: number;
    readonly pods: readonly Pod[];
    readonly value?: number;
    readonly averageValue?: number;
  },
  tolerances: Tolerances,
): number {
  if (averageValue !== undefined) {
    const ratio = total / (averageValue * statusReplicas);
    return isWithin(ratio, tolerances) ? statusReplicas : Math.ceil(total / averageValue);
  }
  const ratio = total / (value ?? 1);
  if (specReplicas === 0) return Math.ceil(ratio);
  if (isWithin(ratio, tolerances)) return specReplicas;
  if (pods.length === 0) throw new Error(`unable to calculate ready pods: ${noPods}`);
  return Math.ceil(ratio * pods.filter((pod) => pod.status?.phase === 'Running' && isReady(pod)).length);
}
