import { spanContextOf, failSpan, startSpan, type SpanContext } from '@oarlock/kernel/tracing';
import type { Span } from '@opentelemetry/api';
import type { PodRecord } from './pod-record.ts';

/** The signal that aborts the pass, the spans that caused it, and when it was enqueued. */
export interface SyncPassOptions {
  readonly signal: AbortSignal;
  readonly spanContexts: readonly SpanContext[];
  readonly enqueuedAt: number;
}

/** One pass of a pod worker over its pod. The pass's trace span starts on first use, because most passes have nothing to do. */
export class SyncPass {
  readonly record: PodRecord;
  readonly signal: AbortSignal;
  readonly #spanContexts: readonly SpanContext[];
  readonly #enqueuedAt: number;
  readonly #began: number;
  #span: Span | undefined;
  /** The delay until the next pass, in milliseconds; undefined if no pass is scheduled. */
  retryMs: number | undefined;

  constructor(record: PodRecord, { signal, spanContexts, enqueuedAt }: SyncPassOptions) {
    this.record = record;
    this.signal = signal;
    this.#spanContexts = spanContexts;
    this.#enqueuedAt = enqueuedAt;
    this.#began = record.node.clock.monotonic();
  }

  get span(): Span {
    if (this.#span === undefined) {
      const { record } = this;
      const [spanContext, ...links] = this.#spanContexts;
      this.#span = startSpan(record.node.tracer, 'sync pod', {
        spanContext,
        links,
        startTime: this.#began,
        attributes: { 'oarlock.key': record.key, 'oarlock.node': record.node.name, 'oarlock.enqueued_at': this.#enqueuedAt },
      });
    }
    return this.#span;
  }

  get spanContext(): SpanContext | undefined {
    return spanContextOf(this.span) ?? this.#spanContexts[0];
  }

  /** The context of the pass's span; undefined if the pass had nothing to do so far. */
  get startedSpanContext(): SpanContext | undefined {
    return this.#span && spanContextOf(this.#span);
  }

  /** Runs one step of the pass in a child span, and passes the span's call options to `work`. */
  async step<T>(
    name: string,
    work: (call: { readonly signal: AbortSignal; readonly spanContext: SpanContext | undefined }) => Promise<T>,
    attributes: Readonly<Record<string, string | number>> = {},
  ): Promise<T> {
    const { record, signal } = this;
    const span = startSpan(record.node.tracer, name, { spanContext: this.spanContext, attributes });
    try {
      return await work({ signal, spanContext: spanContextOf(span) ?? this.spanContext });
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
