import { isStatus } from '@oarlock/api/status';
import { pods } from '@oarlock/api/resources';
import type { Pod, PodStatus } from '@oarlock/api/types/core-v1';
import { Backoff } from '@oarlock/client/backoff';
import type { Clock, Timer } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import { causeOf, failSpan, startSpan, type Cause } from '@oarlock/kernel/tracing';
import type { Client } from '@oarlock/spi/client';
import type { Tracer } from '@opentelemetry/api';
import { podUid } from './pods.ts';
import { statusPatch } from './status-patch.ts';

/** What the manager knows of one pod. Whoever reports statuses keeps it, one per pod. */
export interface StatusSubject {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
  /** Of the object in the API: another for the mirror of a static pod; undefined while there is none. */
  readonly apiUid: string | undefined;
  /** The newest object that came from the server, by watch or as the answer to a patch. */
  api: Pod | undefined;
  report?: Report | undefined;
}

interface Report {
  wanted: PodStatus;
  cause: Cause | undefined;
  /** Counts what was wanted; `sent` is the last one the server has. */
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
  /** Patches under way at a time. */
  readonly parallel?: number;
}

/** How long a status waits that is soon replaced anyway, such as the one of a pod that is only beginning. Milliseconds. */
const lazyMs = 300;

/**
 * Sends statuses of pods to the API: only differences, one patch per pod at a time, the newest wins, an older one never overwrites a newer,
 * and a pod that was replaced by one of the same name is left alone (the uid is in the patch).
 */
export class StatusManager {
  readonly #options: StatusManagerOptions;
  readonly #parallel: number;
  #queue: StatusSubject[] = [];
  #next = 0;
  #sending = 0;
  /** In the order in which they fall due, since the delay is the same for all. */
  #lazy: { readonly subject: StatusSubject; readonly due: number }[] = [];
  #timer: Timer | undefined;
  #stopped = false;
  /** Patches sent so far. */
  patches = 0;

  constructor(options: StatusManagerOptions) {
    this.#options = options;
    this.#parallel = options.parallel ?? 32;
  }

  /** The status to report from now on. `lazy` ones are sent only when nothing newer follows at once. */
  set(subject: StatusSubject, wanted: PodStatus, cause: Cause | undefined, lazy = false): void {
    const report = (subject.report ??= { wanted, cause, version: 0, sent: 0, state: 'idle', backoff: undefined, waiters: undefined });
    report.wanted = wanted;
    report.cause = cause ?? report.cause;
    report.version += 1;
    if (report.state === 'sending' || report.state === 'queued' || report.state === 'waiting' || this.#stopped) return;
    if (!lazy) this.#enqueue(subject, report);
    else if (report.state === 'idle') {
      report.state = 'lazy';
      this.#lazy.push({ subject, due: this.#options.clock.monotonic() + lazyMs });
      this.#arm();
    }
  }

  /** Sends the status again when somebody else said otherwise of whether the pod is ready: a node that was silent for a while had its pods taken for lost. */
  assert(subject: StatusSubject, cause: Cause | undefined): void {
    const { report, api } = subject;
    if (report?.state !== 'idle' || report.sent !== report.version || api === undefined) return;
    const ready = ({ conditions }: PodStatus) => conditions?.find(({ type }) => type === 'Ready')?.status;
    const said = ready(report.wanted);
    if (said !== undefined && said !== ready(api.status ?? {})) this.set(subject, report.wanted, cause);
  }

  /** Resolves when the server has the last status that was set, or the pod is not there any more. */
  async flushed(subject: StatusSubject): Promise<void> {
    const { report } = subject;
    if (report === undefined || report.sent === report.version) return;
    if (report.state === 'lazy') this.#enqueue(subject, report);
    await new Promise<void>((resolve) => {
      (report.waiters ??= []).push(resolve);
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
      for (const { subject } of due) if (subject.report?.state === 'lazy') this.#enqueue(subject, subject.report);
      this.#arm();
    });
  }

  #enqueue(subject: StatusSubject, report: Report): void {
    report.state = 'queued';
    this.#queue.push(subject);
    this.#pump();
  }

  #pump(): void {
    while (this.#sending < this.#parallel && this.#next < this.#queue.length) {
      const subject = this.#queue[this.#next++] as StatusSubject;
      this.#sending += 1;
      void this.#send(subject).finally(() => {
        this.#sending -= 1;
        this.#pump();
      });
    }
    if (this.#next > 1024 || this.#next === this.#queue.length) {
      this.#queue = this.#queue.slice(this.#next);
      this.#next = 0;
    }
  }

  async #send(subject: StatusSubject): Promise<void> {
    const { report } = subject;
    if (report === undefined || this.#stopped) return;
    report.state = 'sending';
    const { version, wanted, cause } = report;
    const { client, clock, random, log, tracer } = this.#options;
    const { namespace, name, apiUid: uid } = subject;
    const patch = uid === undefined ? undefined : statusPatch(uid, subject.api?.status, wanted);
    if (patch !== undefined) {
      const span = startSpan(tracer, 'status update', {
        cause,
        attributes: { 'oarlock.key': `${namespace}/${name}`, 'oarlock.phase': wanted.phase ?? '' },
      });
      try {
        this.patches += 1;
        const answer = await client
          .causedBy(causeOf(span) ?? cause)
          .patch(pods, { namespace, name }, 'strategic', patch, { subresource: 'status' });
        if (podUid(answer) === uid) take(subject, answer);
      } catch (error) {
        failSpan(span, error);
        if (!isPointless(error)) {
          report.backoff ??= new Backoff({ firstMs: 500, longestMs: 30_000, jitter: 0.5, random });
          log[report.backoff.failures > 2 ? 'warn' : 'debug'](
            { err: error, pod: `${namespace}/${name}` },
            'a pod status could not be sent; trying again',
          );
          report.state = 'waiting';
          clock.after(report.backoff.next(), () => {
            if (report.state === 'waiting' && !this.#stopped) this.#enqueue(subject, report);
          });
          return;
        }
      } finally {
        span.end();
      }
    }
    report.backoff = undefined;
    report.sent = version;
    report.state = 'idle';
    if (report.version !== version) {
      this.#enqueue(subject, report);
      return;
    }
    const waiters = report.waiters ?? [];
    report.waiters = undefined;
    for (const resolve of waiters) resolve();
  }
}

/** Keeps the newer of what is known and what came: watches and answers overtake each other. */
export function take(subject: StatusSubject, pod: Pod): void {
  const known = subject.api?.metadata?.resourceVersion ?? '';
  const came = pod.metadata?.resourceVersion ?? '';
  // decimal numbers of any length
  if (came.length < known.length || (came.length === known.length && came < known)) return;
  subject.api = pod;
}

/** The pod is gone, or another of its name is there: nobody to tell. */
function isPointless(error: unknown): boolean {
  return isStatus(error, 'NotFound') || (isStatus(error, 'Conflict') && /uid/i.test(error.message));
}
