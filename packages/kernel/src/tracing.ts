import {
  isSpanContextValid,
  ROOT_CONTEXT,
  SpanStatusCode,
  trace,
  type Attributes,
  type Span,
  type SpanContext,
  type SpanKind,
  type TimeInput,
  type Tracer,
} from '@opentelemetry/api';

/** What made something happen: the span that did it, in any process. W3C trace context. */
export type Cause = SpanContext;

/** Spans that record nothing, for whoever is given no tracer. */
export const noTracer: Tracer = trace.getTracer('none');

export interface SpanOptions {
  readonly cause?: Cause | undefined;
  /** Further causes, when several woke the same piece of work. */
  readonly links?: readonly Cause[] | undefined;
  readonly attributes?: Attributes;
  readonly kind?: SpanKind;
  readonly startTime?: TimeInput;
}

/** Opens a span below `cause`. The caller ends it. Cheap when tracing is off: the span then only carries the cause on. */
export function startSpan(tracer: Tracer, name: string, { cause, links, attributes, kind, startTime }: SpanOptions = {}): Span {
  return tracer.startSpan(
    name,
    {
      ...(attributes && { attributes }),
      ...(kind !== undefined && { kind }),
      ...(startTime !== undefined && { startTime }),
      ...(links && links.length > 0 && { links: links.map((context) => ({ context })) }),
    },
    cause ? trace.setSpanContext(ROOT_CONTEXT, cause) : ROOT_CONTEXT,
  );
}

/** Runs `work` in a span: ends it, and marks it failed when `work` throws. */
export async function inSpan<T>(tracer: Tracer, name: string, options: SpanOptions, work: (span: Span) => Promise<T>): Promise<T> {
  const span = startSpan(tracer, name, options);
  try {
    return await work(span);
  } catch (error) {
    failSpan(span, error);
    throw error;
  } finally {
    span.end();
  }
}

export function failSpan(span: Span, error: unknown): void {
  span.setStatus({ code: SpanStatusCode.ERROR, message: error instanceof Error ? error.message : String(error) });
}

/** The context to hand on, or undefined when the span records nothing and carries nothing. */
export function causeOf(span: Span): Cause | undefined {
  const context = span.spanContext();
  return isSpanContextValid(context) ? context : undefined;
}

/** W3C Trace Context, section 3.2: `00-<32 hex>-<16 hex>-<2 hex>`. */
export function formatTraceparent({ traceId, spanId, traceFlags }: Cause): string {
  return `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`;
}

export function parseTraceparent(header: string | undefined): Cause | undefined {
  const match = /^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})/.exec(header ?? '');
  if (!match || /^0+$/.test(match[1] ?? '') || /^0+$/.test(match[2] ?? '')) return undefined;
  return { traceId: match[1] ?? '', spanId: match[2] ?? '', traceFlags: Number.parseInt(match[3] ?? '0', 16), isRemote: true };
}
