import { hasRestartAllContainersRule } from '@oarlock/api/component-helpers/container-restart';
import type { ContainerStatus, Pod, PodCondition } from '@oarlock/api/types/core-v1';
import type { Time } from '@oarlock/api/object';
import { isRestartableInitContainer } from '@oarlock/api/component-helpers/restartable-init-container';
import { containerStatusFinder } from '../pod-util/pods.ts';
import type { PodPhase } from './pod-phase.ts';
import type { ResizeStatus } from '../pod-util/resize-status.ts';

/** The conditions that only the kubelet writes, and that the kubelet removes when they no longer apply (KEP-1287). */
export const removableConditions: ReadonlySet<string> = new Set(['PodResizePending', 'PodResizeInProgress']);

interface ConditionStatus {
  readonly status: 'True' | 'False';
  readonly reason?: string;
  readonly message?: string;
}
const conditionTrue: ConditionStatus = { status: 'True' };
const conditionFalse = (reason: string, message?: string): ConditionStatus => ({
  status: 'False',
  reason,
  ...(message !== undefined && { message }),
});
const list = (items: readonly string[]) => `[${items.join(' ')}]`;

function completion(phase: PodPhase): ConditionStatus | undefined {
  if (phase === 'Succeeded') return conditionFalse('PodCompleted');
  return phase === 'Failed' ? conditionFalse('PodFailed') : undefined;
}

function initialized(
  pod: Pod,
  {
    init,
    regular,
    phase,
  }: { readonly init: readonly ContainerStatus[]; readonly regular: readonly ContainerStatus[]; readonly phase: PodPhase },
): ConditionStatus {
  const { initContainers = [] } = pod.spec ?? {};
  if (initContainers.length === 0 || regular.some(({ state, lastState }) => state?.running ?? state?.terminated ?? lastState?.terminated))
    return phase === 'Succeeded' ? { status: 'True', reason: 'PodCompleted' } : conditionTrue;
  if (phase === 'Succeeded') return { status: 'True', reason: 'PodCompleted' };
  const unknown: string[] = [];
  const incomplete: string[] = [];
  const find = containerStatusFinder(init);
  for (const container of initContainers) {
    const status = find(container.name);
    if (!status) unknown.push(container.name);
    else if (isRestartableInitContainer(container) ? status.started !== true : !status.ready) incomplete.push(container.name);
  }
  if (unknown.length === 0 && incomplete.length === 0) return conditionTrue;
  const parts = [
    ...(unknown.length > 0 ? [`containers with unknown status: ${list(unknown)}`] : []),
    ...(incomplete.length > 0 ? [`containers with incomplete status: ${list(incomplete)}`] : []),
  ];
  return conditionFalse('ContainersNotInitialized', parts.join(', '));
}

function containersReady(
  pod: Pod,
  {
    init,
    regular,
    phase,
  }: { readonly init: readonly ContainerStatus[]; readonly regular: readonly ContainerStatus[]; readonly phase: PodPhase },
): ConditionStatus {
  const over = completion(phase);
  if (over) return over;
  const unready: string[] = [];
  const [initStatus, regularStatus] = [containerStatusFinder(init), containerStatusFinder(regular)];
  for (const container of pod.spec?.initContainers ?? [])
    if (isRestartableInitContainer(container) && initStatus(container.name)?.ready !== true) unready.push(container.name);
  for (const container of pod.spec?.containers ?? []) if (regularStatus(container.name)?.ready !== true) unready.push(container.name);
  return unready.length === 0 ? conditionTrue : conditionFalse('ContainersNotReady', `containers with unready status: ${list(unready)}`);
}

function ready(pod: Pod, containers: ConditionStatus): ConditionStatus {
  if (containers.status === 'False') return containers;
  const wrong: string[] = [];
  for (const { conditionType } of pod.spec?.readinessGates ?? []) {
    const condition = pod.status?.conditions?.find(({ type }) => type === conditionType);
    if (!condition) wrong.push(`corresponding condition of pod readiness gate "${conditionType}" does not exist.`);
    else if (condition.status !== 'True')
      wrong.push(`the status of pod readiness gate "${conditionType}" is not "True", but ${condition.status}`);
  }
  return wrong.length === 0 ? conditionTrue : conditionFalse('ReadinessGatesNotReady', wrong.join(', '));
}

function resizing({ pending, progress }: Partial<ResizeStatus> = {}): readonly (readonly [string, ConditionStatus])[] {
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

/** The condition that is True while all containers are terminated to restart them (KEP-5532). Only pods with a RestartAllContainers rule have it. */
export const allContainersRestartingCondition = 'AllContainersRestarting';

function restartingAll(pod: Pod, phase: PodPhase, restarting: boolean): readonly (readonly [string, ConditionStatus])[] {
  if (!hasRestartAllContainersRule(pod.spec)) return [];
  const started: ConditionStatus = {
    status: 'True',
    reason: 'RestartAllContainersStarted',
    message: 'A container ended as one of its restart policy rules says',
  };
  return [[allContainersRestartingCondition, completion(phase) ?? (restarting ? started : { status: 'False' })]];
}

export interface PodConditionInputs {
  readonly restarting: boolean;
  readonly init: readonly ContainerStatus[];
  readonly regular: readonly ContainerStatus[];
  readonly phase: PodPhase;
  readonly sandboxReady: boolean;
  readonly resize?: ResizeStatus | undefined;
  /** The message of the condition DisruptionTarget (KEP-3329); undefined unless the node terminated the pod. */
  readonly disruption?: string | undefined;
  /** The previously reported conditions, from which transition times are kept. */
  readonly before: readonly PodCondition[];
  readonly now: Time;
}

/** Returns the pod conditions that the kubelet owns. The transition time of a condition changes only when its status changes. */
export function generatePodConditions(
  pod: Pod,
  { init, regular, phase, restarting, sandboxReady, resize, disruption, before, now }: PodConditionInputs,
): readonly PodCondition[] {
  const containers = containersReady(pod, { init, regular, phase });
  const conditions: readonly (readonly [type: string, condition: ConditionStatus])[] = [
    ['PodReadyToStartContainers', sandboxReady ? conditionTrue : { status: 'False' }],
    ['Initialized', initialized(pod, { init, regular, phase })],
    ['Ready', ready(pod, containers)],
    ['ContainersReady', containers],
    ['PodScheduled', conditionTrue],
    ...(disruption === undefined
      ? []
      : [['DisruptionTarget', { status: 'True', reason: 'TerminationByKubelet', message: disruption } as const] as const]),
    ...restartingAll(pod, phase, restarting),
    ...resizing(resize),
  ];
  const { generation } = pod.metadata ?? {};
  return conditions.map(([type, condition]) => {
    const old = before.find((previous) => previous.type === type);
    const since = (old?.status === condition.status && old.lastTransitionTime) || now;
    return { type, ...condition, lastTransitionTime: since, ...(generation !== undefined && { observedGeneration: generation }) };
  });
}
