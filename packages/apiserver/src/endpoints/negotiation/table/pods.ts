import { isRestartableInitContainer } from '@oarlock/api/component-helpers/restartable-init-container';
import type { Container, ContainerStatus, Pod } from '@oarlock/api/types/core-v1';
import { ageOf, nameOf, none } from './cells.ts';
import { since } from './duration.ts';
import { columnsOf, type Printer, type TableRowCondition } from './printer.ts';

const finished: Readonly<Record<string, readonly TableRowCondition[]>> = {
  Succeeded: [{ type: 'Completed', status: 'True', reason: 'Succeeded', message: 'The pod has completed successfully.' }],
  Failed: [{ type: 'Completed', status: 'True', reason: 'Failed', message: 'The pod failed.' }],
};

/** The status of a pod as one word, with the numbers of its containers. */
export interface PodSummary {
  reason: string;
  ready: number;
  readonly total: number;
  restarts: number;
  lastRestart: string;
}

const isTrue = (pod: Pod, type: string) =>
  pod.status?.conditions?.some((condition) => condition.type === type && condition.status === 'True') ?? false;
const latest = (a: string, b: string | undefined) => (b !== undefined && b !== null && b > a ? b : a);
const stopped = ({ reason, signal, exitCode }: { readonly reason?: string; readonly signal?: number; readonly exitCode?: number }) =>
  reason !== undefined && reason !== '' ? reason : signal !== undefined && signal !== 0 ? `Signal:${signal}` : `ExitCode:${exitCode ?? 0}`;

/** Returns what tables of pods show: the numbers of ready and of all containers, and their restarts. */
export function summarizePod(pod: Pod): PodSummary {
  const { status, spec } = pod;
  const initContainers = new Map((spec?.initContainers ?? []).map((container) => [container.name, container]));
  const sidecars = [...initContainers.values()].filter(isRestartableInitContainer).length;
  const gated = status?.conditions?.some(({ type, reason }) => type === 'PodScheduled' && reason === 'SchedulingGated') ?? false;
  const summary: PodSummary = {
    reason: gated ? 'SchedulingGated' : status?.reason || status?.phase || '',
    ready: 0,
    total: (spec?.containers?.length ?? 0) + sidecars,
    restarts: 0,
    lastRestart: '',
  };
  const before = initialize(pod, summary, initContainers);
  if (!before.initializing || isTrue(pod, 'Initialized')) {
    summary.restarts = before.sidecarRestarts;
    summary.lastRestart = before.lastSidecarRestart;
    run(pod, summary);
  }
  if (pod.metadata?.deletionTimestamp) {
    if (status?.reason === 'NodeLost') summary.reason = 'Unknown';
    else if (status?.phase !== 'Failed' && status?.phase !== 'Succeeded') summary.reason = 'Terminating';
  }
  return summary;
}

/** Evaluates the init containers, up to the first one that keeps the pod from starting. */
function initialize(
  pod: Pod,
  summary: PodSummary,
  containers: ReadonlyMap<string, Container>,
): { readonly initializing: boolean; readonly sidecarRestarts: number; readonly lastSidecarRestart: string } {
  let sidecarRestarts = 0;
  let lastSidecarRestart = '';
  for (const [index, status] of (pod.status?.initContainerStatuses ?? []).entries()) {
    const sidecar = isRestartableInitContainer(containers.get(status.name));
    const finishedAt = status.lastState?.terminated?.finishedAt;
    summary.restarts += status.restartCount ?? 0;
    summary.lastRestart = latest(summary.lastRestart, finishedAt);
    if (sidecar) {
      sidecarRestarts += status.restartCount ?? 0;
      lastSidecarRestart = latest(lastSidecarRestart, finishedAt);
    }
    const { terminated, waiting } = status.state ?? {};
    if (terminated?.exitCode === 0) continue;
    if (sidecar && status.started === true) {
      if (status.ready) summary.ready += 1;
      continue;
    }
    if (terminated) summary.reason = `Init:${stopped(terminated)}`;
    else if (waiting?.reason && waiting.reason !== 'PodInitializing') summary.reason = `Init:${waiting.reason}`;
    else summary.reason = `Init:${index}/${pod.spec?.initContainers?.length ?? 0}`;
    return { initializing: true, sidecarRestarts, lastSidecarRestart };
  }
  return { initializing: false, sidecarRestarts, lastSidecarRestart };
}

/** Evaluates the containers of an initialized pod. The first container with a reason determines the status. */
function run(pod: Pod, summary: PodSummary): void {
  let running = false;
  const statuses: readonly ContainerStatus[] = pod.status?.containerStatuses ?? [];
  for (const status of statuses.toReversed()) {
    summary.restarts += status.restartCount ?? 0;
    summary.lastRestart = latest(summary.lastRestart, status.lastState?.terminated?.finishedAt);
    const { waiting, terminated, running: since } = status.state ?? {};
    if (waiting?.reason) summary.reason = waiting.reason;
    else if (terminated) summary.reason = stopped(terminated);
    else if (status.ready && since) {
      running = true;
      summary.ready += 1;
    }
  }
  if (summary.reason === 'Completed' && running) summary.reason = isTrue(pod, 'Ready') ? 'Running' : 'NotReady';
}

function gates(pod: Pod): string {
  const wanted = pod.spec?.readinessGates ?? [];
  return wanted.length === 0 ? none : `${wanted.filter(({ conditionType }) => isTrue(pod, conditionType)).length}/${wanted.length}`;
}

export const podPrinter: Printer<Pod> = {
  columns: columnsOf(
    'Name',
    { name: 'Ready', description: 'The number of ready containers and the number of containers.' },
    { name: 'Status', description: 'The aggregate state of the pod.' },
    { name: 'Restarts', description: 'The number of container restarts, and the time since the last restart.' },
    'Age',
    { name: 'IP', wide: true, description: 'The IP address of the pod.' },
    { name: 'Node', wide: true, description: 'The node that the pod is bound to.' },
    { name: 'Nominated Node', wide: true, description: 'The node on which preemption frees resources for the pod.' },
    { name: 'Readiness Gates', wide: true, description: 'The number of true readiness gates and the number of readiness gates.' },
  ),
  cells(pod, now) {
    const { reason, ready, total, restarts, lastRestart } = summarizePod(pod);
    return [
      nameOf(pod),
      `${ready}/${total}`,
      reason,
      restarts !== 0 && lastRestart !== '' ? `${restarts} (${since(lastRestart, now)} ago)` : String(restarts),
      ageOf(pod, now),
      pod.status?.podIPs?.[0]?.ip || none,
      pod.spec?.nodeName || none,
      pod.status?.nominatedNodeName || none,
      gates(pod),
    ];
  },
  conditions: (pod) => finished[pod.status?.phase ?? ''] ?? [],
};
