import type { HeapEntry } from '@oarlock/client/heap';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { Cause } from '@oarlock/kernel/tracing';
import type { QueuedPod } from '@oarlock/spi/scheduling';

/** A pod that has no node yet. */
export interface Waiting extends QueuedPod, HeapEntry {
  pod: Pod;
  attempts: number;
  cause: Cause | undefined;
  /** Since when it waits to be tried, in milliseconds since the epoch. */
  enqueuedAt: number;
  /** When its back-off ends, on the monotonic clock. */
  readyAt: number;
  /** Since when it waits for something to change, on the monotonic clock. */
  parkedAt: number;
  /** Names of the plugins that refused it last; empty: anything may help. */
  refusedBy: ReadonlySet<string>;
  place: 'active' | 'backoff' | 'error-backoff' | 'unschedulable' | 'gated' | 'in-flight';
  /** It was changed or activated while it was being tried. */
  movedMeanwhile: boolean;
  /** Up to which event it had heard of all when it was taken. */
  since: number;
  order: number;
}
