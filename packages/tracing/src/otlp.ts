import type { RecordedSpan } from '@oarlock/spi/spans';
import { withoutValues } from './readable-spans.ts';

const nanos = (ms: number) => String(BigInt(Math.round(ms * 1000)) * 1000n);
const value = (v: string | number | boolean) =>
  typeof v === 'string'
    ? { stringValue: v }
    : typeof v === 'boolean'
      ? { boolValue: v }
      : Number.isInteger(v)
        ? { intValue: String(v) }
        : { doubleValue: v };
const attributes = (record: Readonly<Record<string, string | number | boolean>>) =>
  Object.entries(record).map(([key, v]) => ({ key, value: value(v) }));

/** Returns the JSON body of an OTLP/HTTP request with these spans (ExportTraceServiceRequest of opentelemetry-proto). Values of objects stay in the cluster. */
export function otlpBody(spans: readonly RecordedSpan[]): unknown {
  const byProcess = groupByProcess(spans);
  return {
    resourceSpans: [...byProcess].map(([process, own]) => ({
      resource: { attributes: attributes({ 'service.name': 'oarlock', 'service.instance.id': process }) },
      scopeSpans: [...new Set(own.map(({ scope }) => scope))].map((scope) => ({
        scope: { name: scope },
        spans: own
          .filter((span) => span.scope === scope)
          .map((span) => ({
            traceId: span.traceId,
            spanId: span.spanId,
            ...(span.parentId !== undefined && { parentSpanId: span.parentId }),
            name: span.name,
            kind: 1,
            startTimeUnixNano: nanos(span.start),
            endTimeUnixNano: nanos(span.end),
            attributes: attributes(withoutValues(span).attributes),
            links: span.links,
            status: span.error === undefined ? {} : { code: 2, message: span.error },
          })),
      })),
    })),
  };
}

function groupByProcess(spans: readonly RecordedSpan[]): Map<string, RecordedSpan[]> {
  const groups = new Map<string, RecordedSpan[]>();
  for (const span of spans) {
    const own = groups.get(span.process);
    if (own) own.push(span);
    else groups.set(span.process, [span]);
  }
  return groups;
}

const timeoutMs = 10_000;

/** Returns a function that sends spans to an OTLP/HTTP collector. `base` is the URL of the collector without `/v1/traces`. */
export function otlpSender(base: string): (spans: readonly RecordedSpan[]) => Promise<void> {
  const url = new URL('v1/traces', base.endsWith('/') ? base : `${base}/`);
  return async (spans) => {
    const response = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(otlpBody(spans)),
      signal: AbortSignal.timeout(timeoutMs),
    });
    await response.body?.cancel();
    if (!response.ok) throw new Error(`the collector responded with ${response.status}`);
  };
}
