import { isStatus } from '@oarlock/api/status';
import { pods } from '@oarlock/api/resources';
import type { Pod, PodStatus } from '@oarlock/api/types/core-v1';
import { Backoff } from '@oarlock/primitives/backoff';
import type { Clock, Timer } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import { spanContextOf, failSpan, startSpan, type SpanContext } from '@oarlock/kernel/tracing';
import type { Client } from '@oarlock/spi/client';
import type { Tracer } from '@opentelemetry/api';
import { podUid } from '../pod-util/pods.ts';
import { statusPatch } from './status-patch.ts';

/** The state that the status manager keeps per pod. The pod record implements this interface. */
export interface StatusSubject {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
  /** The uid of the pod's API object, which for a static pod is the uid of its mirror pod; undefined if there is no API object. */
  readonly apiUid: string | undefined;
  /** The newest version of the API object that was received by watch or as the response of a patch. */
  apiPod: Pod | undefined;
  versionedStatus?: VersionedPodStatus | undefined;
}

interface VersionedPodStatus {
  status: PodStatus;
  spanContext: SpanContext | undefined;
  /** The version of the status, which each `setPodStatus` increments. `sent` is the newest version that the API server has. */
  version: number;
  sent: number;
  state: 'idle' | 'lazy' | 'queued' | 'sending' | 'waiting';
  backoff: Backoff | undefined;
  waiters: (() => void)[] | undefined;
}

export interface StatusManagerOptions {
  readonly client: Client;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
  readonly tracer: Tracer;
  /** The maximum number of concurrent patches. */
  readonly maxParallelPatches?: number;
}

/** The delay of a status that is likely to be replaced soon, such as the first status of a pod. Milliseconds. */
const lazyMs = 300;

/** The status of a pod and the span that caused it. */
export interface PodStatusUpdate {
  readonly wanted: PodStatus;
  readonly spanContext: SpanContext | undefined;
  readonly lazy?: boolean | undefined;
}

/**
 * Sends pod statuses to the API server as patches. At most one patch per pod is in flight, and the newest status wins. The uid in the patch
 * protects a new pod of the same name.
 */
export class StatusManager {
  readonly #options: StatusManagerOptions;
  readonly #parallel: number;
  #queue: StatusSubject[] = [];
  #next = 0;
  #sending = 0;
  /** The pods with a delayed status, in the order of their due times, because all delays are equal. */
  #lazy: { readonly subject: StatusSubject; readonly due: number }[] = [];
  #timer: Timer | undefined;
  #stopped = false;
  /** The number of patches sent, for metrics. */
  patchCount = 0;

  constructor(options: StatusManagerOptions) {
    this.#options = options;
    this.#parallel = options.maxParallelPatches ?? 32;
  }

  /** Sets the status to send. A `lazy` status is delayed by `lazyMs`, and a newer status replaces it. */
  setPodStatus(subject: StatusSubject, { wanted, spanContext, lazy = false }: PodStatusUpdate): void {
    const versioned = (subject.versionedStatus ??= {
      status: wanted,
      spanContext,
      version: 0,
      sent: 0,
      state: 'idle',
      backoff: undefined,
      waiters: undefined,
    });
    versioned.status = wanted;
    versioned.spanContext = spanContext ?? versioned.spanContext;
    versioned.version += 1;
    if (versioned.state === 'sending' || versioned.state === 'queued' || versioned.state === 'waiting' || this.#stopped) return;
    if (!lazy) this.#enqueue(subject, versioned);
    else if (versioned.state === 'idle') {
      versioned.state = 'lazy';
      this.#lazy.push({ subject, due: this.#options.clock.monotonic() + lazyMs });
      this.#arm();
    }
  }

  /**
   * Sends the status again if another client changed the Ready condition. The node lifecycle controller sets the condition to False on pods of a
   * node whose heartbeats were missing for a while.
   */
  resendIfReadinessDiffers(subject: StatusSubject, spanContext: SpanContext | undefined): void {
    const { versionedStatus: versioned, apiPod: api } = subject;
    if (versioned?.state !== 'idle' || versioned.sent !== versioned.version || api === undefined) return;
    const ready = ({ conditions }: PodStatus) => conditions?.find(({ type }) => type === 'Ready')?.status;
    const readyStatus = ready(versioned.status);
    if (readyStatus !== undefined && readyStatus !== ready(api.status ?? {}))
      this.setPodStatus(subject, { wanted: versioned.status, spanContext });
  }

  /** Resolves when the API server has the newest status, or the pod no longer exists. */
  async waitUntilSent(subject: StatusSubject): Promise<void> {
    const { versionedStatus: versioned } = subject;
    if (versioned === undefined || versioned.sent === versioned.version) return;
    if (versioned.state === 'lazy') this.#enqueue(subject, versioned);
    await new Promise<void>((resolve) => {
      (versioned.waiters ??= []).push(resolve);
    });
  }

  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
    this.#queue = [];
    this.#lazy = [];
  }

  #arm(): void {
    const [first] = this.#lazy;
    if (this.#timer !== undefined || first === undefined) return;
    this.#timer = this.#options.clock.after(Math.max(0, first.due - this.#options.clock.monotonic()), () => {
      this.#timer = undefined;
      const now = this.#options.clock.monotonic();
      const late = this.#lazy.findIndex(({ due }) => due > now);
      const due = this.#lazy.splice(0, late < 0 ? this.#lazy.length : late);
      for (const { subject } of due) if (subject.versionedStatus?.state === 'lazy') this.#enqueue(subject, subject.versionedStatus);
      this.#arm();
    });
  }

  #enqueue(subject: StatusSubject, versioned: VersionedPodStatus): void {
    versioned.state = 'queued';
    this.#queue.push(subject);
    this.#startSending();
  }

  #startSending(): void {
    while (this.#sending < this.#parallel && this.#next < this.#queue.length) {
      const subject = this.#queue[this.#next++] as StatusSubject;
      this.#sending += 1;
      void this.#send(subject).finally(() => {
        this.#sending -= 1;
        this.#startSending();
      });
    }
    if (this.#next > 1024 || this.#next === this.#queue.length) {
      this.#queue = this.#queue.slice(this.#next);
      this.#next = 0;
    }
  }

  async #send(subject: StatusSubject): Promise<void> {
    const { versionedStatus: versioned } = subject;
    if (versioned === undefined || this.#stopped) return;
    versioned.state = 'sending';
    const { version, status: wanted, spanContext } = versioned;
    const { client, clock, random, log, tracer } = this.#options;
    const { namespace, name, apiUid: uid } = subject;
    const patch = uid === undefined ? undefined : statusPatch(uid, subject.apiPod?.status, wanted);
    if (patch !== undefined) {
      const span = startSpan(tracer, 'status update', {
        spanContext,
        attributes: { 'oarlock.key': `${namespace}/${name}`, 'oarlock.phase': wanted.phase ?? '' },
      });
      try {
        this.patchCount += 1;
        const answer = await client
          .withSpanContext(spanContextOf(span) ?? spanContext)
          .patch(pods, { namespace, name }, 'strategic', patch, { subresource: 'status' });
        if (podUid(answer) === uid) updateApiPod(subject, answer);
      } catch (error) {
        failSpan(span, error);
        if (!isObsoletePatchError(error)) {
          versioned.backoff ??= new Backoff({ firstMs: 500, longestMs: 30_000, jitter: 0.5, random });
          log[versioned.backoff.failures > 2 ? 'warn' : 'debug'](
            { err: error, pod: `${namespace}/${name}` },
            'sending a pod status failed; retrying',
          );
          versioned.state = 'waiting';
          clock.after(versioned.backoff.next(), () => {
            if (versioned.state === 'waiting' && !this.#stopped) this.#enqueue(subject, versioned);
          });
          return;
        }
      } finally {
        span.end();
      }
    }
    versioned.backoff = undefined;
    versioned.sent = version;
    versioned.state = 'idle';
    if (versioned.version !== version) {
      this.#enqueue(subject, versioned);
      return;
    }
    const waiters = versioned.waiters ?? [];
    versioned.waiters = undefined;
    for (const resolve of waiters) resolve();
  }
}

/** Stores the newer of two versions of the API object, because watch events and patch responses may arrive in any order. */
export function updateApiPod(subject: StatusSubject, pod: Pod): void {
  const known = subject.apiPod?.metadata?.resourceVersion ?? '';
  const received = pod.metadata?.resourceVersion ?? '';
  // resource versions are decimal numbers of any length
  if (received.length < known.length || (received.length === known.length && received < known)) return;
  subject.apiPod = pod;
}

/** Returns true if a patch failed because the pod no longer exists or was replaced by another pod of the same name. */
function isObsoletePatchError(error: unknown): boolean {
  return isStatus(error, 'NotFound') || (isStatus(error, 'Conflict') && /uid/i.test(error.message));
}
