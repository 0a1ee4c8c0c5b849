import type { ContainerStatus, Pod, PodCondition } from '@oarlock/api/types/core-v1';
import type { Time } from '@oarlock/api/object';
import { couldRestartAll, isSidecar, statusOf } from './pods.ts';
import type { PodPhase } from './pod-phase.ts';
import type { ResizeReport } from './pod-resize.ts';

/** Conditions that the kubelet alone writes, and that are only there as long as they are true (KEP-1287). */
export const passingConditions: ReadonlySet<string> = new Set(['PodResizePending', 'PodResizeInProgress']);

interface Verdict {
  readonly status: 'True' | 'False';
  readonly reason?: string;
  readonly message?: string;
}
const good: Verdict = { status: 'True' };
const bad = (reason: string, message?: string): Verdict => ({ status: 'False', reason, ...(message !== undefined && { message }) });
const list = (items: readonly string[]) => `[${items.join(' ')}]`;

function completion(phase: PodPhase): Verdict | undefined {
  if (phase === 'Succeeded') return bad('PodCompleted');
  return phase === 'Failed' ? bad('PodFailed') : undefined;
}

function initialized(pod: Pod, init: readonly ContainerStatus[], regular: readonly ContainerStatus[], phase: PodPhase): Verdict {
  const { initContainers = [] } = pod.spec ?? {};
  if (initContainers.length === 0 || regular.some(({ state, lastState }) => state?.running ?? state?.terminated ?? lastState?.terminated))
    return phase === 'Succeeded' ? { status: 'True', reason: 'PodCompleted' } : good;
  if (phase === 'Succeeded') return { status: 'True', reason: 'PodCompleted' };
  const unknown: string[] = [];
  const incomplete: string[] = [];
  for (const container of initContainers) {
    const status = statusOf(init, container.name);
    if (!status) unknown.push(container.name);
    else if (isSidecar(container) ? status.started !== true : !status.ready) incomplete.push(container.name);
  }
  if (unknown.length === 0 && incomplete.length === 0) return good;
  const parts = [
    ...(unknown.length > 0 ? [`containers with unknown status: ${list(unknown)}`] : []),
    ...(incomplete.length > 0 ? [`containers with incomplete status: ${list(incomplete)}`] : []),
  ];
  return bad('ContainersNotInitialized', parts.join(', '));
}

function containersReady(pod: Pod, init: readonly ContainerStatus[], regular: readonly ContainerStatus[], phase: PodPhase): Verdict {
  const over = completion(phase);
  if (over) return over;
  const unready: string[] = [];
  for (const container of pod.spec?.initContainers ?? [])
    if (isSidecar(container) && statusOf(init, container.name)?.ready !== true) unready.push(container.name);
  for (const container of pod.spec?.containers ?? []) if (statusOf(regular, container.name)?.ready !== true) unready.push(container.name);
  return unready.length === 0 ? good : bad('ContainersNotReady', `containers with unready status: ${list(unready)}`);
}

function ready(pod: Pod, containers: Verdict): Verdict {
  if (containers.status === 'False') return containers;
  const wrong: string[] = [];
  for (const { conditionType } of pod.spec?.readinessGates ?? []) {
    const condition = pod.status?.conditions?.find(({ type }) => type === conditionType);
    if (!condition) wrong.push(`corresponding condition of pod readiness gate "${conditionType}" does not exist.`);
    else if (condition.status !== 'True')
      wrong.push(`the status of pod readiness gate "${conditionType}" is not "True", but ${condition.status}`);
  }
  return wrong.length === 0 ? good : bad('ReadinessGatesNotReady', wrong.join(', '));
}

function resizing({ pending, progress }: Partial<ResizeReport> = {}): readonly (readonly [string, Verdict])[] {
  return [
    ...(pending ? [['PodResizePending', { status: 'True', ...pending }] as const] : []),
    ...(progress
      ? [
          [
            'PodResizeInProgress',
            { status: 'True', ...(progress.failure !== undefined && { reason: 'Error', message: progress.failure }) },
          ] as const,
        ]
      : []),
  ];
}

/** All containers are being ended, to be started anew (KEP-5532). Said of pods alone of which some container may ask for it. */
export const allContainersRestarting = 'AllContainersRestarting';

function restartingAll(pod: Pod, phase: PodPhase, restarting: boolean): readonly (readonly [string, Verdict])[] {
  if (!couldRestartAll(pod)) return [];
  const started: Verdict = {
    status: 'True',
    reason: 'RestartAllContainersStarted',
    message: 'A container ended as one of its restart policy rules says',
  };
  return [[allContainersRestarting, completion(phase) ?? (restarting ? started : { status: 'False' })]];
}

export interface ConditionSources {
  readonly restarting: boolean;
  readonly init: readonly ContainerStatus[];
  readonly regular: readonly ContainerStatus[];
  readonly phase: PodPhase;
  readonly sandboxReady: boolean;
  readonly resize?: ResizeReport | undefined;
  /** Why the node ended the pod although the pod had done nothing to deserve it. */
  readonly disruption?: string | undefined;
  /** What was reported before, for the times of transition. */
  readonly before: readonly PodCondition[];
  readonly now: Time;
}

/** The kubelet's own conditions. A transition time changes when the status of a condition does. */
export function podConditions(
  pod: Pod,
  { init, regular, phase, restarting, sandboxReady, resize, disruption, before, now }: ConditionSources,
): readonly PodCondition[] {
  const containers = containersReady(pod, init, regular, phase);
  const verdicts: readonly (readonly [type: string, verdict: Verdict])[] = [
    ['PodReadyToStartContainers', sandboxReady ? good : { status: 'False' }],
    ['Initialized', initialized(pod, init, regular, phase)],
    ['Ready', ready(pod, containers)],
    ['ContainersReady', containers],
    ['PodScheduled', good],
    ...(disruption === undefined
      ? []
      : [['DisruptionTarget', { status: 'True', reason: 'TerminationByKubelet', message: disruption } as const] as const]),
    ...restartingAll(pod, phase, restarting),
    ...resizing(resize),
  ];
  const { generation } = pod.metadata ?? {};
  return verdicts.map(([type, verdict]) => {
    const old = before.find((condition) => condition.type === type);
    const since = old?.status === verdict.status && old.lastTransitionTime !== undefined ? old.lastTransitionTime : now;
    return { type, ...verdict, lastTransitionTime: since, ...(generation !== undefined && { observedGeneration: generation }) };
  });
}
