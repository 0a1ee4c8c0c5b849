import type { Cause } from '@oarlock/kernel/tracing';
import type { PodRecord } from '../pod-record.ts';
import { hasProbes, PodProbes } from './pod-probes.ts';

/** Who hears of what probes find. */
export interface ProbeListener {
  wake(cause: Cause | undefined): void;
  /** The write that is behind what happens without one of its own. */
  cause(): Cause | undefined;
}

/** Brings a pod's probes to what runs of it now. */
export function syncProbes(record: PodRecord, listener: ProbeListener): void {
  const { pod, runtime, state, node } = record;
  if (!runtime || (!record.probes && !hasProbes(pod))) return;
  const { clock, tracer, random, addresses } = node;
  record.probes ??= new PodProbes({
    driver: runtime.hub.driver,
    clock,
    tracer,
    random,
    cause: () => listener.cause(),
    changed: () => listener.wake(undefined),
    event: (type, reason, message, path) => record.event(type, reason, message, path),
  });
  record.probes.sync(pod, state, state.podIPs[0] ?? addresses[0] ?? '127.0.0.1', record.adopted);
  record.adopted = false;
}
