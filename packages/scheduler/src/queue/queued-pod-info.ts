import type { HeapEntry } from '@oarlock/primitives/collections/heap';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { SpanContext } from '@oarlock/kernel/tracing';
import type { QueuedPod } from '@oarlock/spi/scheduling';

/** A pod in the scheduling queue. */
export interface QueuedPodInfo extends QueuedPod, HeapEntry {
  pod: Pod;
  attempts: number;
  /** Time at which the first attempt began, in milliseconds on the monotonic clock; undefined before it. */
  firstAttemptAt: number | undefined;
  /** Number of attempts in which plugins rejected the pod. */
  unschedulableCount: number;
  /** Number of attempts that failed with an error since the last rejection. */
  consecutiveErrorsCount: number;
  spanContext: SpanContext | undefined;
  /** Time at which the pod last entered activeQ, in milliseconds since the epoch. */
  enqueuedAt: number;
  /** Time at which the backoff of the last attempt expires, in milliseconds on the monotonic clock. */
  backoffExpiresAt: number;
  /** Time at which the pod entered unschedulablePods, in milliseconds on the monotonic clock. */
  unschedulableSince: number;
  /** True if the timeout of unschedulablePods, not an event, started the current attempt. */
  flushedFromUnschedulable: boolean;
  /** Names of the plugins that rejected the pod in its last attempt; empty after an error. */
  unschedulablePlugins: ReadonlySet<string>;
  /** The sub-queue that holds the pod; `in-flight` during an attempt. */
  queue: 'active' | 'backoff' | 'error-backoff' | 'unschedulable' | 'gated' | 'in-flight';
  /** True if the pod was updated or activated during the attempt. */
  movedInFlight: boolean;
  /** The number of the first event that was recorded after the attempt began. */
  firstEvent: number;
  /** The order in which pods were added. It decides between pods that QueueSort considers equal. */
  sequence: number;
}
