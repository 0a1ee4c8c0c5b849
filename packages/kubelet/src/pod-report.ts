import { jsonEqual } from '@oarlock/api/json';
import type { PodStatus } from '@oarlock/api/types/core-v1';
import type { Cause } from '@oarlock/kernel/tracing';
import type { PodRecord } from './pod-record.ts';
import { podStatus } from './pod-status.ts';
import { verdictsOf } from './pod-sync.ts';
import type { SyncPass } from './sync-pass.ts';

/** Why a pod ends, or was not let in. */
export interface PodEnd {
  readonly reason: string;
  readonly message: string;
  /** The pod has done nothing to deserve it (KEP-3329). */
  readonly disrupts?: boolean;
}

/** Makes a pod's status out of its record and has it sent, when it says something new. */
export class PodReport {
  /** Not in the API any more: nobody is told. */
  gone = false;
  readonly #record: PodRecord;
  /** The write that is behind what happens without one of its own. */
  readonly #cause: () => Cause | undefined;

  constructor(record: PodRecord, cause: () => Cause | undefined) {
    this.#record = record;
    this.#cause = cause;
  }

  /** `end`: everything was stopped, for this reason if there is one. `lazy`: a later one may take its place. */
  tell(pass: SyncPass, { end, lazy }: { readonly end?: { readonly verdict: PodEnd | undefined }; readonly lazy: boolean }): void {
    const ended = end !== undefined;
    const record = this.#record;
    const { runtime, pod, node } = record;
    this.set(
      pass,
      podStatus(pod, {
        state: record.state,
        verdicts: verdictsOf(record),
        failures: record.failures,
        messages: record.messages,
        recursiveReadOnly: runtime?.hub.supports(record.handler, 'recursiveReadOnlyMounts'),
        ...(node.devices && { healthOf: (container) => node.devices?.healthOf(record.uid, container) ?? [] }),
        runtimeName: runtime?.hub.name ?? '',
        ended,
        restarting: record.restarting && !ended,
        resize: ended ? undefined : record.resize,
        before: record.status ?? pod.status,
        hostIPs: node.addresses,
        now: node.clock.now(),
        startedAt: record.startedAt,
        ...(end?.verdict && { verdict: end.verdict }),
      }),
      lazy,
    );
  }

  /** Sends this one. */
  set(pass: SyncPass, status: PodStatus, lazy: boolean): void {
    const record = this.#record;
    // what waits to be sent must not wait for ever because the one after is the same
    if (record.status !== undefined && jsonEqual(record.status, status) && (lazy || record.report?.state !== 'lazy')) return;
    record.status = status;
    record.node.starts.look(record, record.node.clock.now());
    // a lazy one is mostly not sent at all: it is not worth a span
    if (!this.gone) record.node.statuses.set(record, status, lazy ? this.#cause() : pass.cause, lazy);
  }
}
