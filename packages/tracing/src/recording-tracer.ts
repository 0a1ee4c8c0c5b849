import { randomFillSync } from 'node:crypto';
import {
  context as contexts,
  ROOT_CONTEXT,
  SpanStatusCode,
  trace,
  TraceFlags,
  type Attributes,
  type AttributeValue,
  type Context,
  type Exception,
  type Link,
  type Span,
  type SpanContext,
  type SpanOptions,
  type SpanStatus,
  type TimeInput,
  type Tracer,
} from '@opentelemetry/api';
import type { RecordedSpan } from '@oarlock/spi/spans';

// random bytes are read from the kernel once for 256 spans
const pool = Buffer.alloc(4096);
let used = pool.length;
function randomId(bytes: 8 | 16): string {
  if (used + bytes > pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  used += bytes;
  return pool.toString('hex', used - bytes, used);
}

const origin = performance.timeOrigin;
const now = () => origin + performance.now();
const millis = (time: TimeInput | undefined): number => {
  if (time === undefined) return now();
  if (typeof time === 'number') return time < 1e12 ? origin + time : time;
  return Array.isArray(time) ? time[0] * 1000 + time[1] / 1e6 : (time as Date).getTime();
};

const noLinks: readonly never[] = Object.freeze([]);
const noAttributes: Attributes = Object.freeze({});

/** A span that has ended. Converted to a RecordedSpan on read, because most spans are evicted before a read. */
export interface EndedSpan {
  toRecordedSpan(): RecordedSpan;
}
export type SpanSink = (span: EndedSpan) => void;

const plain = (value: AttributeValue): string | number | boolean =>
  typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean' ? value : JSON.stringify(value);

/** The parent and the options of a span, and where it is recorded. */
export interface RecordingSpanOptions {
  readonly parent: SpanContext | undefined;
  readonly options: SpanOptions;
  readonly scope: string;
  readonly process: string;
  readonly sink: SpanSink;
}

class RecordingSpan implements Span, EndedSpan {
  readonly #parent: SpanContext | undefined;
  readonly #scope: string;
  readonly #process: string;
  readonly #start: number;
  readonly #sink: SpanSink;
  #name: string;
  #links: readonly { traceId: string; spanId: string }[] = noLinks;
  #attributes: Attributes = noAttributes;
  /** True if another span may use the same attributes object, which must then be copied before a change. */
  #shared = true;
  #context: SpanContext | undefined;
  #error: string | undefined;
  #end: number | undefined;

  constructor(name: string, { parent, options, scope, process, sink }: RecordingSpanOptions) {
    this.#name = name;
    this.#parent = parent;
    this.#scope = scope;
    this.#process = process;
    this.#sink = sink;
    if (options.links !== undefined) this.addLinks(options.links);
    this.#start = millis(options.startTime);
    const { attributes } = options;
    if (attributes === undefined) return;
    if (Object.isFrozen(attributes)) this.#attributes = attributes;
    else this.setAttributes(attributes);
  }

  spanContext(): SpanContext {
    return (this.#context ??= { traceId: this.#parent?.traceId ?? randomId(16), spanId: randomId(8), traceFlags: TraceFlags.SAMPLED });
  }
  setAttribute(key: string, value: AttributeValue): this {
    if (this.#shared) {
      this.#attributes = { ...this.#attributes };
      this.#shared = false;
    }
    this.#attributes[key] = value; // converted to a plain value on read
    return this;
  }
  setAttributes(attributes: Attributes): this {
    for (const key of Object.keys(attributes)) {
      const value = attributes[key];
      if (value !== undefined) this.setAttribute(key, value);
    }
    return this;
  }
  addEvent(name: string): this {
    return this.setAttribute(`event.${name}`, now() - this.#start);
  }
  addLink({ context }: Link): this {
    return this.addLinks([{ context }]);
  }
  addLinks(links: Link[]): this {
    this.#links = [...this.#links, ...links.map(({ context: { traceId, spanId } }) => ({ traceId, spanId }))];
    return this;
  }
  setStatus({ code, message }: SpanStatus): this {
    this.#error = code === SpanStatusCode.ERROR ? (message ?? 'failed') : undefined;
    return this;
  }
  updateName(name: string): this {
    this.#name = name;
    return this;
  }
  recordException(exception: Exception): void {
    this.#error ??= typeof exception === 'string' ? exception : (exception.message ?? String(exception));
  }
  isRecording(): boolean {
    return this.#end === undefined;
  }
  end(endTime?: TimeInput): void {
    if (this.#end !== undefined) return;
    this.#end = millis(endTime);
    this.#sink(this);
  }

  toRecordedSpan(): RecordedSpan {
    const { traceId, spanId } = this.spanContext();
    const attributes: Record<string, string | number | boolean> = {};
    for (const [key, value] of Object.entries(this.#attributes)) if (value !== undefined) attributes[key] = plain(value);
    return {
      traceId,
      spanId,
      ...(this.#parent !== undefined && { parentId: this.#parent.spanId }),
      links: this.#links,
      name: this.#name,
      scope: this.#scope,
      process: this.#process,
      start: this.#start,
      end: this.#end ?? this.#start,
      attributes,
      ...(this.#error !== undefined && { error: this.#error }),
    };
  }
}

/** Returns an OpenTelemetry Tracer that passes every ended span to `sink`. The tracer does not sample, because the store is bounded. */
export function recordingTracer(scope: string, process: string, sink: SpanSink): Tracer {
  const startSpan = (name: string, options: SpanOptions = {}, context: Context = ROOT_CONTEXT): Span => {
    const parent = options.root ? undefined : trace.getSpanContext(context);
    return new RecordingSpan(name, { parent, options, scope, process, sink });
  };
  // the API's overloads share one implementation: the function is the last argument, options and context are optional
  function startActiveSpan(name: string, ...rest: unknown[]): unknown {
    const work = rest.at(-1) as (span: Span) => unknown;
    const [options, context] = rest.slice(0, -1) as [SpanOptions | undefined, Context | undefined];
    const within = context ?? contexts.active();
    const span = startSpan(name, options, within);
    return contexts.with(trace.setSpan(within, span), () => work(span));
  }
  return { startSpan, startActiveSpan } as Tracer;
}
