import { causeOf, failSpan, startSpan, type Cause } from '@oarlock/kernel/tracing';
import type { Span } from '@opentelemetry/api';
import type { PodRecord } from './pod-record.ts';

/**
 * One look at a pod and what is done about it. Its span begins when there is something to show: most looks find nothing to do.
 */
export class SyncPass {
  readonly record: PodRecord;
  readonly signal: AbortSignal;
  readonly #causes: readonly Cause[];
  readonly #enqueuedAt: number;
  readonly #began: number;
  #span: Span | undefined;
  /** Milliseconds after which to look again, if anything asked for it. */
  retryMs: number | undefined;

  constructor(record: PodRecord, signal: AbortSignal, causes: readonly Cause[], enqueuedAt: number) {
    this.record = record;
    this.signal = signal;
    this.#causes = causes;
    this.#enqueuedAt = enqueuedAt;
    this.#began = record.node.clock.now();
  }

  get span(): Span {
    if (this.#span === undefined) {
      const { record } = this;
      const [cause, ...links] = this.#causes;
      this.#span = startSpan(record.node.tracer, 'sync pod', {
        cause,
        links,
        startTime: this.#began,
        attributes: { 'oarlock.key': record.key, 'oarlock.node': record.node.name, 'oarlock.enqueued_at': this.#enqueuedAt },
      });
    }
    return this.#span;
  }

  get cause(): Cause | undefined {
    return causeOf(this.span) ?? this.#causes[0];
  }

  /** Runs one step in a span below this pass's; what it is given goes to drivers. */
  async step<T>(
    name: string,
    work: (call: { readonly signal: AbortSignal; readonly cause: Cause | undefined }) => Promise<T>,
    attributes: Readonly<Record<string, string | number>> = {},
  ): Promise<T> {
    const { record, signal } = this;
    const span = startSpan(record.node.tracer, name, { cause: this.cause, attributes });
    try {
      return await work({ signal, cause: causeOf(span) ?? this.cause });
    } catch (error) {
      failSpan(span, error);
      failSpan(this.span, error);
      throw error;
    } finally {
      span.end();
    }
  }

  retryIn(ms: number | undefined): void {
    if (ms !== undefined && (this.retryMs === undefined || ms < this.retryMs)) this.retryMs = ms;
  }

  fail(error: unknown): void {
    failSpan(this.span, error);
  }
  end(): void {
    this.#span?.end();
  }
}
