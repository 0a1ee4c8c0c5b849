import type { Operation } from '@oarlock/spi/admission';
import { Counter, Histogram, type Registry } from 'prom-client';

/** Bounds of upstream's histogram, in seconds. */
const buckets = [0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 25];
const maxCode = 600;

/** One call of one webhook. */
export interface Asked {
  readonly name: string;
  readonly mutating: boolean;
  readonly operation: Operation;
}
/** `no_error`: it answered, and said no. */
export type RejectionCause = 'calling_webhook_error' | 'apiserver_internal_error' | 'no_error';

/** What webhooks take, and how they end, under upstream's names. */
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
      help: 'Seconds that a webhook takes.',
      labelNames: ['name', 'type', 'operation', 'rejected'],
      buckets,
      registers,
    });
    this.#requests = new Counter({
      name: `${prefix}request_total`,
      help: 'Calls of webhooks, by the code that they ended with and whether that refused the request.',
      labelNames: ['name', 'type', 'operation', 'code', 'rejected'],
      registers,
    });
    this.#rejections = new Counter({
      name: `${prefix}rejection_count`,
      help: 'Requests that webhooks refused, or that were refused because one could not be called.',
      labelNames: ['name', 'type', 'operation', 'error_type', 'rejection_code'],
      registers,
    });
    this.#failedOpen = new Counter({
      name: `${prefix}fail_open_count`,
      help: 'Requests that went on although a webhook could not be called.',
      labelNames: ['name', 'type'],
      registers,
    });
  }

  /** It was called and has answered, or not. `code` is 0 where there is none. */
  ended({ name, mutating, operation }: Asked, seconds: number, code: number, rejection: RejectionCause | undefined): void {
    const type = typeOf(mutating);
    const rejected = String(rejection !== undefined);
    const shown = String(Math.min(code, maxCode));
    this.#durations.observe({ name, type, operation, rejected }, seconds);
    this.#requests.inc({ name, type, operation, code: shown, rejected });
    if (rejection !== undefined) this.#rejections.inc({ name, type, operation, error_type: rejection, rejection_code: shown });
  }

  failedOpen({ name, mutating }: Asked): void {
    this.#failedOpen.inc({ name, type: typeOf(mutating) });
  }
}

const typeOf = (mutating: boolean) => (mutating ? 'admit' : 'validating');
