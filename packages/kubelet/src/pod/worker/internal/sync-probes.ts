import type { SpanContext } from '@oarlock/kernel/tracing';
import type { PodRecord } from '../../pod-record.ts';
import { hasProbes, ProbeManager } from '../../../probes/probe-manager.ts';

/** Receives changes of a pod's probe results. */
export interface ProbeListener {
  /** Called with the span of a probe that changed its result. */
  probed(spanContext: SpanContext | undefined): void;
  /** Returns the parent of the spans of probes. */
  spanContext(): SpanContext | undefined;
}

/** Starts the probes of running containers and stops all other probes of the pod. */
export function syncProbes(record: PodRecord, listener: ProbeListener): void {
  const { pod, runtime, state, node } = record;
  if (!runtime || (!record.probes && !hasProbes(pod))) return;
  const { clock, tracer, random, addresses } = node;
  record.probes ??= new ProbeManager({
    driver: runtime.pleg.driver,
    clock,
    tracer,
    random,
    spanContext: () => listener.spanContext(),
    changed: (spanContext) => listener.probed(spanContext),
    event: (type, reason, message, path) => record.event(type, reason, message, path),
  });
  record.probes.sync(pod, { state, podIP: state.podIPs[0] ?? addresses[0] ?? '127.0.0.1', adopted: record.adopted });
  record.adopted = false;
}
