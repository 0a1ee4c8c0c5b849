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

// ids are drawn from a pool: one call to the kernel for 256 spans
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

const now = () => performance.timeOrigin + performance.now();
const millis = (time: TimeInput | undefined): number => {
  if (time === undefined) return now();
  if (typeof time === 'number') return time < 1e12 ? performance.timeOrigin + time : time;
  return Array.isArray(time) ? time[0] * 1000 + time[1] / 1e6 : (time as Date).getTime();
};

const noLinks: readonly never[] = Object.freeze([]);

export type SpanSink = (span: RecordedSpan) => void;

class RecordingSpan implements Span {
  readonly #context: SpanContext;
  readonly #parentId: string | undefined;
  readonly #scope: string;
  readonly #process: string;
  readonly #start: number;
  readonly #sink: SpanSink;
  #name: string;
  #links: readonly { traceId: string; spanId: string }[] = noLinks;
  #attributes: Record<string, string | number | boolean> = {};
  #error: string | undefined;
  #ended = false;

  constructor(
    name: string,
    context: SpanContext,
    parentId: string | undefined,
    options: SpanOptions,
    scope: string,
    process: string,
    sink: SpanSink,
  ) {
    this.#name = name;
    this.#context = context;
    this.#parentId = parentId;
    this.#scope = scope;
    this.#process = process;
    this.#sink = sink;
    if (options.links !== undefined) this.addLinks(options.links);
    this.#start = millis(options.startTime);
    if (options.attributes) this.setAttributes(options.attributes);
  }

  spanContext(): SpanContext {
    return this.#context;
  }
  setAttribute(key: string, value: AttributeValue): this {
    this.#attributes[key] =
      typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean' ? value : JSON.stringify(value);
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
    return !this.#ended;
  }
  end(endTime?: TimeInput): void {
    if (this.#ended) return;
    this.#ended = true;
    const span: { -readonly [Key in keyof RecordedSpan]: RecordedSpan[Key] } = {
      traceId: this.#context.traceId,
      spanId: this.#context.spanId,
      links: this.#links,
      name: this.#name,
      scope: this.#scope,
      process: this.#process,
      start: this.#start,
      end: millis(endTime),
      attributes: this.#attributes,
    };
    if (this.#parentId !== undefined) span.parentId = this.#parentId;
    if (this.#error !== undefined) span.error = this.#error;
    this.#sink(span);
  }
}

/** A tracer of the OpenTelemetry API that gives finished spans to a sink. Every span is recorded: the store is what is bounded. */
export function recordingTracer(scope: string, process: string, sink: SpanSink): Tracer {
  const startSpan = (name: string, options: SpanOptions = {}, context: Context = ROOT_CONTEXT): Span => {
    const parent = options.root ? undefined : trace.getSpanContext(context);
    const own: SpanContext = { traceId: parent?.traceId ?? randomId(16), spanId: randomId(8), traceFlags: TraceFlags.SAMPLED };
    return new RecordingSpan(name, own, parent?.spanId, options, scope, process, sink);
  };
  // the API's overloads share one implementation: the function comes last, before it options and context may be left out
  function startActiveSpan(name: string, ...rest: unknown[]): unknown {
    const work = rest.at(-1) as (span: Span) => unknown;
    const [options, context] = rest.slice(0, -1) as [SpanOptions | undefined, Context | undefined];
    const within = context ?? contexts.active();
    const span = startSpan(name, options, within);
    return contexts.with(trace.setSpan(within, span), () => work(span));
  }
  return { startSpan, startActiveSpan } as Tracer;
}
