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
import { errorText } from '@oarlock/primitives/error-text';

export type { SpanContext } from '@opentelemetry/api';

/** A tracer whose spans record nothing: the default where no tracer is configured. */
export const noTracer: Tracer = trace.getTracer('none');

export interface SpanOptions {
  /** The parent. Absent: the span starts a new trace. */
  readonly spanContext?: SpanContext | undefined;
  /** Further spans that caused the work, for instance when several events led to one reconcile. */
  readonly links?: readonly SpanContext[] | undefined;
  readonly attributes?: Attributes;
  readonly kind?: SpanKind;
  readonly startTime?: TimeInput;
}

/** Starts a span below `spanContext`; the caller ends it. With tracing off this is cheap: the span only propagates its parent's context. */
export function startSpan(tracer: Tracer, name: string, { spanContext, links, attributes, kind, startTime }: SpanOptions = {}): Span {
  return tracer.startSpan(
    name,
    {
      ...(attributes && { attributes }),
      ...(kind !== undefined && { kind }),
      ...(startTime !== undefined && { startTime }),
      ...(links && links.length > 0 && { links: links.map((context) => ({ context })) }),
    },
    spanContext ? trace.setSpanContext(ROOT_CONTEXT, spanContext) : ROOT_CONTEXT,
  );
}

/** Runs `work` in a span. The span ends with `work`, and has status ERROR if `work` throws. */
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

/** Sets the span's status to ERROR with the error's message. */
export function failSpan(span: Span, error: unknown): void {
  span.setStatus({ code: SpanStatusCode.ERROR, message: errorText(error) });
}

/** Returns the context to propagate to further work, or undefined if the span neither records nor has a parent. */
export function spanContextOf(span: Span): SpanContext | undefined {
  const context = span.spanContext();
  return isSpanContextValid(context) ? context : undefined;
}

/** Formats a `traceparent` header: `00-<32 hex>-<16 hex>-<2 hex>` (W3C Trace Context, section 3.2). */
export function formatTraceparent({ traceId, spanId, traceFlags }: SpanContext): string {
  return `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`;
}

/** Parses a `traceparent` header. Returns undefined if it is absent or invalid, which includes ids of zeros. */
export function parseTraceparent(header: string | undefined): SpanContext | undefined {
  const match = /^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})/.exec(header ?? '');
  if (!match || /^0+$/.test(match[1] ?? '') || /^0+$/.test(match[2] ?? '')) return undefined;
  return { traceId: match[1] ?? '', spanId: match[2] ?? '', traceFlags: Number.parseInt(match[3] ?? '0', 16), isRemote: true };
}
