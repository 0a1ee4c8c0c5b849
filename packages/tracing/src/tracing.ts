import { hostname } from 'node:os';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import { noTracer } from '@oarlock/kernel/tracing';
import type { RecordedSpan, SpanStore } from '@oarlock/spi/spans';
import type { Tracer } from '@opentelemetry/api';
import { MemorySpanStore } from './memory-span-store.ts';
import { otlpSender } from './otlp.ts';
import { recordingTracer, type SpanSink } from './recording-tracer.ts';
import { SpanExporter } from './span-exporter.ts';

export interface TracingOptions {
  readonly enabled: boolean;
  readonly keep: number;
  readonly otlp?: string | undefined;
  /** Sends ended spans to the process of the API server; for processes without an API server. */
  readonly forward?: (spans: readonly RecordedSpan[]) => Promise<void>;
  /** Called for every span that ends. */
  readonly observe?: (span: RecordedSpan) => void;
  readonly clock: Clock;
  readonly log: Logger;
}

export interface Tracing {
  tracer(scope: string): Tracer;
  readonly store: SpanStore;
  flush(): Promise<void>;
}

/** Starts tracing in this process: ended spans are passed to the memory store, to an OTLP collector, or to the cluster's API server. */
export function openTracing({ enabled, keep, otlp, forward, observe, clock, log }: TracingOptions): Tracing {
  const store = new MemorySpanStore(keep);
  if (!enabled) return { tracer: () => noTracer, store, flush: async () => {} };
  const exporters = [
    ...(otlp === undefined ? [] : [new SpanExporter({ clock, log, send: otlpSender(otlp) })]),
    ...(forward === undefined ? [] : [new SpanExporter({ clock, log, send: forward })]),
  ];
  const sink: SpanSink = (span) => {
    if (forward === undefined) store.addEnded(span);
    if (observe === undefined && exporters.length === 0) return;
    const recorded = span.toRecordedSpan();
    observe?.(recorded);
    for (const exporter of exporters) exporter.add(recorded);
  };
  const self = `${hostname()}:${process.pid}`;
  return {
    tracer: (scope) => recordingTracer(scope, self, sink),
    store,
    flush: async () => {
      await Promise.all(exporters.map((exporter) => exporter.flush()));
    },
  };
}
