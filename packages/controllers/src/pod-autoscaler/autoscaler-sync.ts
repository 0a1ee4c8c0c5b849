import { formatTime } from '@oarlock/api/values/time';
import type { HorizontalPodAutoscaler, HorizontalPodAutoscalerCondition, MetricStatus } from '@oarlock/api/types/autoscaling-v2';
import type { Client } from '@oarlock/spi/client';

/** State of one HorizontalPodAutoscaler reconcile. The conditions and metrics are written to the status when the reconcile ends. */
export interface AutoscalerSync {
  readonly autoscaler: HorizontalPodAutoscaler;
  readonly client: Client;
  conditions: readonly HorizontalPodAutoscalerCondition[];
  /** The metrics for the status; undefined if none were computed, so that the status loses its metrics, as upstream. */
  metrics: readonly MetricStatus[] | undefined;
}

interface ConditionUpdate {
  readonly type: 'AbleToScale' | 'ScalingActive' | 'ScalingLimited';
  readonly status: 'True' | 'False';
  readonly reason: string;
  readonly message: string;
}

/** Adds or replaces a condition. Keeps `lastTransitionTime` if the condition's status is equal. */
export function setCondition(sync: AutoscalerSync, update: ConditionUpdate, nowMs: number): void {
  const old = sync.conditions.find(({ type }) => type === update.type);
  const { type, status, reason, message } = update;
  const lastTransitionTime = old?.status === status ? (old.lastTransitionTime ?? '') : formatTime(nowMs);
  const next = { type, status, reason, message, lastTransitionTime };
  sync.conditions = old === undefined ? [...sync.conditions, next] : sync.conditions.map((each) => (each === old ? next : each));
}
