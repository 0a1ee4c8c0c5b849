import type { KubeObject } from '@oarlock/api/object';
import { events } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { formatMicroTime, formatTime } from '@oarlock/api/time';
import type { Event, ObjectReference } from '@oarlock/api/types/core-v1';
import type { Clock } from '@oarlock/kernel/clock';
import { silentLogger, type Logger } from '@oarlock/kernel/logger';
import type { Client, EventAction, EventRecorder, EventSource } from '@oarlock/spi/client';
import { EventCorrelator, eventName, type Correlated } from './event-correlator.ts';
import { asNote, EventSeries, seriesOverMs } from './event-series.ts';
import { eventLoop } from '@oarlock/kernel/event-loop';
import { Fifo } from './fifo.ts';

export interface EventWriterOptions {
  readonly client: Client;
  readonly clock: Clock;
  /** In [0, 1). */
  readonly random: () => number;
  readonly log?: Logger;
}

interface Source {
  readonly component: string;
  readonly host: string;
  queued: number;
  /** Since it was last said. */
  dropped: number;
  saidAt: number;
}
interface Queued {
  readonly event: Event;
  readonly source: Source;
}

/** Events of one component that wait to be written; more are dropped. client-go's figure. */
const queuedPerSource = 1000;
const queuedAltogether = 10_000;
/** Whoever drops events drops many: how often that is said. */
const sayEveryMs = 1000;
const maxTries = 12;
const retryMs = 10_000;

/** Writes the Events of a process, one after another, correlated as client-go does. Makes the recorders that fill its queue. */
export class EventWriter implements EventSource {
  readonly #options: EventWriterOptions;
  readonly #log: Logger;
  readonly #correlator = new EventCorrelator();
  readonly #series = new EventSeries();
  readonly #queue = new Fifo<Queued>();
  readonly #abort = new AbortController();
  #writing: Promise<void> | undefined;
  #lastName = 0n;
  #seriesTimer: { cancel(): void } | undefined;

  constructor(options: EventWriterOptions) {
    this.#options = options;
    this.#log = options.log ?? silentLogger;
  }

  recorder(component: string, host = ''): EventRecorder {
    const source: Source = { component, host, queued: 0, dropped: 0, saidAt: Number.NEGATIVE_INFINITY };
    return {
      event: (about, type, reason, message, fieldPath, action) =>
        this.#record(source, referenceTo(about, fieldPath), { type, reason, ...this.#form(source, message, action) }),
    };
  }

  /** Events that wait are dropped. Resolves when the one being written is written or given up. */
  async stop(): Promise<void> {
    this.#abort.abort();
    this.#seriesTimer?.cancel();
    this.#queue.clear();
    await this.#writing;
  }

  /** Resolves when everything recorded so far is written or given up. */
  async flush(): Promise<void> {
    await this.#writing;
  }

  #form({ component, host }: Source, message: string, action: EventAction | undefined): Partial<Event> {
    const now = this.#options.clock.now();
    if (action !== undefined)
      return {
        message: asNote(message),
        eventTime: formatMicroTime(now),
        action: action.name,
        ...(action.related && { related: referenceTo(action.related, undefined) }),
        reportingComponent: component,
        reportingInstance: host === '' ? component : `${component}-${host}`,
      };
    return {
      message,
      source: { component, ...(host !== '' && { host }) },
      firstTimestamp: formatTime(now),
      lastTimestamp: formatTime(now),
      count: 1,
      reportingComponent: component,
      reportingInstance: host,
    };
  }

  #record(source: Source, involvedObject: ObjectReference, form: Partial<Event>): void {
    if (this.#abort.signal.aborted) return;
    if (source.queued >= queuedPerSource || this.#queue.size >= queuedAltogether) {
      this.#dropped(source, involvedObject, form.reason ?? '');
      return;
    }
    source.queued += 1;
    const metadata = { name: this.#name(involvedObject.name ?? ''), namespace: involvedObject.namespace ?? 'default' };
    this.#queue.push({ source, event: { apiVersion: 'v1', kind: 'Event', metadata, involvedObject, ...form } });
    this.#begin();
  }

  #begin(): void {
    this.#writing ??= this.#drain()
      .catch((error: unknown) => this.#log.error({ err: error }, 'an event could not be written'))
      .finally(() => {
        this.#writing = undefined;
      });
  }

  #dropped(source: Source, object: ObjectReference, reason: string): void {
    source.dropped += 1;
    const now = this.#options.clock.monotonic();
    if (now - source.saidAt < sayEveryMs) return;
    const { component, dropped } = source;
    this.#log.warn({ component, dropped, object, reason }, 'dropped events, of which this is the latest: too many wait to be written');
    source.dropped = 0;
    source.saidAt = now;
  }

  async #drain(): Promise<void> {
    // The recorder's caller goes on first.
    await Promise.resolve();
    for (let next = this.#queue.shift(); next !== undefined; next = this.#queue.shift()) {
      next.source.queued -= 1;
      const correlated = this.#correlate(next.event);
      if (correlated.action !== 'drop') await this.#write(correlated);
      while (eventLoop.held) await eventLoop.turn();
    }
  }

  #correlate(event: Event): Correlated {
    const { clock } = this.#options;
    if (event.eventTime === undefined)
      return this.#correlator.correlate(event, clock.monotonic(), () => this.#name(event.involvedObject.name ?? ''));
    const correlated = this.#series.correlate(event, clock.monotonic(), clock.now());
    if (correlated.action !== 'create') this.#seriesTimer ??= clock.after(seriesOverMs, () => void this.#endSeries());
    return correlated;
  }

  /** Writes the counts of series that are over. */
  async #endSeries(): Promise<void> {
    this.#seriesTimer = undefined;
    const { clock } = this.#options;
    const { patches, open } = this.#series.over(clock.monotonic());
    if (open) this.#seriesTimer = clock.after(seriesOverMs, () => void this.#endSeries());
    for (const each of patches) await this.#write(each);
  }

  /** Tries again while the server cannot be reached; what it refuses is given up. */
  async #write(correlated: Exclude<Correlated, { action: 'drop' }>): Promise<void> {
    const { clock, random } = this.#options;
    const { signal } = this.#abort;
    for (let tries = 1; !signal.aborted; tries += 1) {
      try {
        const correlator = correlated.event.eventTime === undefined ? this.#correlator : this.#series;
        correlator.written(correlated.key, await this.#send(correlated));
        return;
      } catch (error) {
        if (signal.aborted) return;
        const { involvedObject, reason } = correlated.event;
        const unreached: boolean = isStatus(error, 'ServiceUnavailable', 'TooManyRequests');
        if (isStatus(error) && !unreached) {
          const quiet =
            error.reason === 'AlreadyExists' ||
            error.status.details?.causes?.some((cause) => cause.reason === 'NamespaceTerminating') === true;
          this.#log[quiet ? 'debug' : 'warn']({ err: error, involvedObject, reason }, 'the server refused an event');
          return;
        }
        if (tries >= maxTries) {
          this.#log.warn({ err: error, involvedObject, reason }, 'gave up writing an event');
          return;
        }
        // At first a random part, so that clients do not come back all at once.
        await clock.sleep(tries === 1 ? retryMs * random() : retryMs, signal).catch(() => undefined);
      }
    }
  }

  async #send(correlated: Exclude<Correlated, { action: 'drop' }>): Promise<Event> {
    const { client } = this.#options;
    const { event } = correlated;
    const { resourceVersion: _, ...metadata } = event.metadata ?? {};
    if (correlated.action === 'patch') {
      try {
        return await client.patch(
          events,
          { namespace: metadata.namespace ?? 'default', name: metadata.name ?? '' },
          'strategic',
          correlated.patch,
          { signal: this.#abort.signal },
        );
      } catch (error) {
        // Events expire: this one begins anew.
        if (!isStatus(error, 'NotFound')) throw error;
      }
    }
    return client.create(events, { ...event, metadata }, { signal: this.#abort.signal });
  }

  /** Unique in this process, also for events of one millisecond. */
  #name(object: string): string {
    const now = BigInt(Math.floor(this.#options.clock.now())) * 1_000_000n;
    this.#lastName = now > this.#lastName ? now : this.#lastName + 1n;
    return eventName(object, this.#lastName);
  }
}

function referenceTo(about: KubeObject, fieldPath: string | undefined): ObjectReference {
  const { name, namespace, uid, resourceVersion } = about.metadata ?? {};
  return {
    ...(about.kind !== undefined && { kind: about.kind }),
    ...(about.apiVersion !== undefined && { apiVersion: about.apiVersion }),
    ...(namespace !== undefined && namespace !== '' && { namespace }),
    ...(name !== undefined && { name }),
    ...(uid !== undefined && { uid }),
    ...(resourceVersion !== undefined && { resourceVersion }),
    ...(fieldPath !== undefined && { fieldPath }),
  };
}
