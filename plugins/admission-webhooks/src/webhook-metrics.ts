import type { Operation } from '@oarlock/spi/admission';
import { Counter, Histogram, type Registry } from 'prom-client';

/** Buckets of upstream's histogram, in seconds. */
const buckets = [0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 25];
const maxCode = 600;

/** The labels of a webhook call. */
export interface WebhookCallLabels {
  readonly name: string;
  readonly mutating: boolean;
  readonly operation: Operation;
}
/** The cause of a rejected request. `no_error` means that the webhook denied the request. */
export type RejectionCause = 'calling_webhook_error' | 'apiserver_internal_error' | 'no_error';

/** The duration in seconds, the HTTP code and the rejection of a webhook call. */
export interface WebhookObservation {
  readonly seconds: number;
  readonly code: number;
  readonly rejection: RejectionCause | undefined;
}

/** The duration and result of webhook calls, under upstream's metric names. */
export class WebhookMetrics {
  readonly #durations: Histogram<'name' | 'type' | 'operation' | 'rejected'>;
  readonly #requests: Counter<'name' | 'type' | 'operation' | 'code' | 'rejected'>;
  readonly #rejections: Counter<'name' | 'type' | 'operation' | 'error_type' | 'rejection_code'>;
  readonly #failedOpen: Counter<'name' | 'type'>;

  constructor(registry: Registry) {
    const registers = [registry];
    const prefix = 'apiserver_admission_webhook_';
    this.#durations = new Histogram({
      name: `${prefix}admission_duration_seconds`,
      help: 'Admission webhook latency in seconds.',
      labelNames: ['name', 'type', 'operation', 'rejected'],
      buckets,
      registers,
    });
    this.#requests = new Counter({
      name: `${prefix}request_total`,
      help: 'Admission webhook calls, by response code and whether they rejected the request.',
      labelNames: ['name', 'type', 'operation', 'code', 'rejected'],
      registers,
    });
    this.#rejections = new Counter({
      name: `${prefix}rejection_count`,
      help: 'Requests that admission webhooks rejected, by denial or by a failed call.',
      labelNames: ['name', 'type', 'operation', 'error_type', 'rejection_code'],
      registers,
    });
    this.#failedOpen = new Counter({
      name: `${prefix}fail_open_count`,
      help: 'Failed admission webhook calls that were ignored by failurePolicy.',
      labelNames: ['name', 'type'],
      registers,
    });
  }

  /** Records a webhook call. `code` is the HTTP status code, or 0 if there was no response. */
  observe({ name, mutating, operation }: WebhookCallLabels, { seconds, code, rejection }: WebhookObservation): void {
    const type = typeOf(mutating);
    const rejected = String(rejection !== undefined);
    const codeLabel = String(Math.min(code, maxCode));
    this.#durations.observe({ name, type, operation, rejected }, seconds);
    this.#requests.inc({ name, type, operation, code: codeLabel, rejected });
    if (rejection !== undefined) this.#rejections.inc({ name, type, operation, error_type: rejection, rejection_code: codeLabel });
  }

  failedOpen({ name, mutating }: WebhookCallLabels): void {
    this.#failedOpen.inc({ name, type: typeOf(mutating) });
  }
}

const typeOf = (mutating: boolean) => (mutating ? 'admit' : 'validating');
