import type { WebhookStep } from '@oarlock/spi/admission';
import type { ApiRequest } from '@oarlock/spi/loopback';

/** The steps of a request whose latencies are recorded, by the names of upstream's annotations. */
export type LatencyStep = 'authentication' | 'authorization' | 'impersonation' | 'apf-queue-wait' | WebhookStep | 'etcd';

/** Receives the latencies of the steps of one request. */
export interface LatencyTracker {
  /** Adds the time in milliseconds that a step took. */
  addLatency(step: LatencyStep, ms: number): void;
}

/** An ApiRequest, with the receiver of its latencies if they are recorded. */
export interface LatencyTracked extends ApiRequest {
  readonly latencies?: LatencyTracker;
}
