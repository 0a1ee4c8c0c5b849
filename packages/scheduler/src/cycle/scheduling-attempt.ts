import type { SpanContext } from '@oarlock/kernel/tracing';
import type { SchedulingProfile } from '../config/profiles.ts';
import type { SchedulingCycleState } from '../framework/cycle-state.ts';
import { statusMessage, type PluginStatus } from '../framework/plugin-status.ts';
import type { QueuedPodInfo } from '../queue/queued-pod-info.ts';

/** One attempt to schedule one pod. */
export interface SchedulingAttempt {
  readonly podInfo: QueuedPodInfo;
  readonly profile: SchedulingProfile;
  readonly spanContext: SpanContext | undefined;
}

/** An attempt that found a node. The pod is assumed on the node and must be bound. */
export interface ScheduledPod extends SchedulingAttempt {
  readonly state: SchedulingCycleState;
  readonly node: string;
  /** Start of the attempt in milliseconds, on the monotonic clock. */
  readonly startedAt: number;
  /** The timeout in milliseconds of each plugin that makes the pod wait at permit; undefined if no plugin does. */
  readonly permitTimeouts: ReadonlyMap<string, number> | undefined;
}

export interface SchedulingFailure {
  /** Names of the plugins that rejected the pod; empty after an error. */
  readonly unschedulablePlugins: ReadonlySet<string>;
  /** The reason of the pod's condition PodScheduled. */
  readonly reason: 'Unschedulable' | 'SchedulerError';
  readonly message: string;
  /** The node to nominate the pod to. undefined keeps the current nomination; '' clears it. */
  readonly nominatedNodeName?: string;
}

export interface FailedAttempt extends SchedulingAttempt {
  readonly failure: SchedulingFailure;
}

/** Returns the failure of an attempt for an error other than a plugin's status. */
export const errorFailure = (message: string): SchedulingFailure => ({
  unschedulablePlugins: new Set(),
  reason: 'SchedulerError',
  message,
  nominatedNodeName: '',
});

/** Returns the failure of an attempt for a plugin's status. With `afterNodeSelection`, the message counts the rejection as that of one node. */
export function failureOf(status: PluginStatus, afterNodeSelection: boolean): SchedulingFailure {
  const message = statusMessage(status);
  if (status.code === 'error') return errorFailure(message);
  return {
    unschedulablePlugins: new Set(status.plugin === undefined ? [] : [status.plugin]),
    reason: 'Unschedulable',
    message: afterNodeSelection ? `0/1 nodes are available: 1 ${message}.` : message,
    nominatedNodeName: '',
  };
}
