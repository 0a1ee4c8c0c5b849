import { jsonEqual } from '@oarlock/api/json/json';
import type { PodStatus } from '@oarlock/api/types/core-v1';
import type { SpanContext } from '@oarlock/kernel/tracing';
import type { PodRecord } from '../../pod-record.ts';
import { generatePodStatus } from '../../../status/pod-status.ts';
import { probeResultsOf } from '../../../kuberuntime/sync-pod.ts';
import type { SyncPass } from '../../sync-pass.ts';

/** The reason and message of a pod that the kubelet terminated or rejected. */
export interface PodFailure {
  readonly reason: string;
  readonly message: string;
  /** True if the node caused the termination. The pod then gets the condition DisruptionTarget (KEP-3329). */
  readonly isDisruption?: boolean;
}

/** Computes a pod's status from its record, and passes a changed status to the status manager. */
export class PodStatusReporter {
  /** True when the pod's API object is gone. No status is sent any more. */
  deletedFromApi = false;
  readonly #record: PodRecord;
  /** Returns the trace span context below which a lazy status is sent. */
  readonly #spanContext: () => SpanContext | undefined;

  constructor(record: PodRecord, spanContext: () => SpanContext | undefined) {
    this.#record = record;
    this.#spanContext = spanContext;
  }

  /**
   * Computes and reports the pod's status. `end`: all containers are stopped, because of `end.failure` if set. `lazy`: the status may be delayed,
   * because a later status is likely to replace it.
   */
  report(pass: SyncPass, { end, lazy }: { readonly end?: { readonly failure: PodFailure | undefined }; readonly lazy: boolean }): void {
    const ended = end !== undefined;
    const record = this.#record;
    const { runtime, pod, node } = record;
    this.setStatus(
      pass,
      generatePodStatus(pod, {
        state: record.state,
        probeResults: probeResultsOf(record),
        failures: record.startFailures,
        messages: record.terminationMessages,
        recursiveReadOnly: runtime?.pleg.supports(record.handler, 'recursiveReadOnlyMounts'),
        ...(node.deviceManager && { healthOf: (container) => node.deviceManager?.healthOf(record.uid, container) ?? [] }),
        runtimeName: runtime?.pleg.name ?? '',
        ended,
        restarting: record.restartingAllContainers && !ended,
        resize: ended ? undefined : record.resize,
        before: record.status ?? pod.status,
        hostIPs: node.addresses,
        now: node.clock.now(),
        startedAt: record.startedAt,
        ...(end?.failure && { failure: end.failure }),
      }),
      lazy,
    );
  }

  /** Reports the given status instead of a computed one. */
  setStatus(pass: SyncPass, status: PodStatus, lazy: boolean): void {
    const record = this.#record;
    // an unchanged status must still be sent if the previous one waits lazily
    if (record.status !== undefined && jsonEqual(record.status, status) && (lazy || record.versionedStatus?.state !== 'lazy')) return;
    record.status = status;
    record.node.startupLatency.observe(record, record.node.clock.now());
    // most lazy statuses are never sent: no span for them
    if (!this.deletedFromApi)
      record.node.statusManager.setPodStatus(record, { wanted: status, spanContext: lazy ? this.#spanContext() : pass.spanContext, lazy });
  }
}
