import type { KubeObject } from '@oarlock/api/object';
import { events } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { formatMicroTime, formatTime } from '@oarlock/api/values/time';
import type { Event, ObjectReference } from '@oarlock/api/types/core-v1';
import type { Clock } from '@oarlock/primitives/clock';
import { silentLogger, type Logger } from '@oarlock/primitives/logger';
import type { Client, EventAction, EventRecorder, EventRecorderFactory } from '@oarlock/spi/client';
import { EventCorrelator, eventName, type EventCorrelateResult } from './event-correlator.ts';
import { truncateNote, EventSeries, seriesOverMs } from './event-series.ts';
import { eventLoop } from '@oarlock/primitives/concurrency/event-loop';
import { Fifo } from '@oarlock/primitives/collections/fifo';

export interface EventBroadcasterOptions {
  readonly client: Client;
  readonly clock: Clock;
  /** Returns a number in [0, 1). */
  readonly random: () => number;
  readonly log?: Logger;
}

interface Source {
  readonly component: string;
  readonly host: string;
  queued: number;
  /** Number of dropped events since the last log message. */
  dropped: number;
  loggedAt: number;
}
interface Queued {
  readonly event: Event;
  readonly source: Source;
}

/** Maximum number of queued events per component; further events are dropped (client-go's value). */
const queuedPerSource = 1000;
const queuedAltogether = 10_000;
/** Minimum interval between log messages about dropped events, in milliseconds. */
const dropLogIntervalMs = 1000;
const maxTries = 12;
const retryMs = 10_000;

/** Writes the Events of a process one after another, correlated as client-go does (record.EventBroadcaster), and creates the recorders. */
export class EventBroadcaster implements EventRecorderFactory {
  readonly #options: EventBroadcasterOptions;
  readonly #log: Logger;
  readonly #correlator = new EventCorrelator();
  readonly #series = new EventSeries();
  readonly #queue = new Fifo<Queued>();
  readonly #abort = new AbortController();
  #writing: Promise<void> | undefined;
  #lastName = 0n;
  #seriesTimer: { cancel(): void } | undefined;

  constructor(options: EventBroadcasterOptions) {
    this.#options = options;
    this.#log = options.log ?? silentLogger;
  }

  recorder(component: string, host = ''): EventRecorder {
    const source: Source = { component, host, queued: 0, dropped: 0, loggedAt: Number.NEGATIVE_INFINITY };
    return {
      event: (about, type, reason, message, fieldPath, action) =>
        this.#record(source, referenceTo(about, fieldPath), { type, reason, ...this.#eventFields(source, message, action) }),
    };
  }

  /** Drops queued events. Resolves when the event in progress is written or given up. */
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

  #eventFields({ component, host }: Source, message: string, action: EventAction | undefined): Partial<Event> {
    const now = this.#options.clock.now();
    if (action !== undefined)
      return {
        message: truncateNote(message),
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

  #record(source: Source, involvedObject: ObjectReference, fields: Partial<Event>): void {
    if (this.#abort.signal.aborted) return;
    if (source.queued >= queuedPerSource || this.#queue.size >= queuedAltogether) {
      this.#drop(source, involvedObject, fields.reason ?? '');
      return;
    }
    source.queued += 1;
    const metadata = { name: this.#name(involvedObject.name ?? ''), namespace: involvedObject.namespace ?? 'default' };
    this.#queue.push({ source, event: { apiVersion: 'v1', kind: 'Event', metadata, involvedObject, ...fields } });
    this.#startWriting();
  }

  #startWriting(): void {
    this.#writing ??= this.#drain()
      .catch((error: unknown) => this.#log.error({ err: error }, 'an event could not be written'))
      .finally(() => {
        this.#writing = undefined;
      });
  }

  #drop(source: Source, object: ObjectReference, reason: string): void {
    source.dropped += 1;
    const now = this.#options.clock.monotonic();
    if (now - source.loggedAt < dropLogIntervalMs) return;
    const { component, dropped } = source;
    this.#log.warn({ component, dropped, object, reason }, 'dropped events because too many wait to be written; this is the latest');
    source.dropped = 0;
    source.loggedAt = now;
  }

  async #drain(): Promise<void> {
    // lets the caller of the recorder continue first
    await Promise.resolve();
    for (let next = this.#queue.shift(); next !== undefined; next = this.#queue.shift()) {
      next.source.queued -= 1;
      const correlated = this.#correlate(next.event);
      if (correlated.action !== 'drop') await this.#write(correlated);
      while (eventLoop.shouldYield) await eventLoop.yield();
    }
  }

  #correlate(event: Event): EventCorrelateResult {
    const { clock } = this.#options;
    if (event.eventTime === undefined)
      return this.#correlator.correlate(event, clock.monotonic(), () => this.#name(event.involvedObject.name ?? ''));
    const correlated = this.#series.correlate(event, clock.monotonic(), clock.now());
    if (correlated.action !== 'create') this.#seriesTimer ??= clock.after(seriesOverMs, () => void this.#endSeries());
    return correlated;
  }

  /** Writes the counts of series that have ended. */
  async #endSeries(): Promise<void> {
    this.#seriesTimer = undefined;
    const { clock } = this.#options;
    const { patches, open } = this.#series.endedSeries(clock.monotonic());
    if (open) this.#seriesTimer = clock.after(seriesOverMs, () => void this.#endSeries());
    for (const each of patches) await this.#write(each);
  }

  /** Writes an event. Retries while the server is unreachable; gives up an event that the server rejects. */
  async #write(correlated: Exclude<EventCorrelateResult, { action: 'drop' }>): Promise<void> {
    const { clock, random } = this.#options;
    const { signal } = this.#abort;
    for (let tries = 1; !signal.aborted; tries += 1) {
      try {
        const correlator = correlated.event.eventTime === undefined ? this.#correlator : this.#series;
        correlator.updateState(correlated.key, await this.#send(correlated));
        return;
      } catch (error) {
        if (signal.aborted) return;
        const { involvedObject, reason } = correlated.event;
        const isUnreachable: boolean = isStatus(error, 'ServiceUnavailable', 'TooManyRequests');
        if (isStatus(error) && !isUnreachable) {
          const quiet =
            error.reason === 'AlreadyExists' ||
            error.status.details?.causes?.some((cause) => cause.reason === 'NamespaceTerminating') === true;
          this.#log[quiet ? 'debug' : 'warn']({ err: error, involvedObject, reason }, 'the server rejected an event');
          return;
        }
        if (tries >= maxTries) {
          this.#log.warn({ err: error, involvedObject, reason }, 'gave up writing an event');
          return;
        }
        // the first delay is random, so that clients do not reconnect at the same time
        await clock.sleep(tries === 1 ? retryMs * random() : retryMs, signal).catch(() => undefined);
      }
    }
  }

  async #send(correlated: Exclude<EventCorrelateResult, { action: 'drop' }>): Promise<Event> {
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
        // the Event has expired: create a new one
        if (!isStatus(error, 'NotFound')) throw error;
      }
    }
    return client.create(events, { ...event, metadata }, { signal: this.#abort.signal });
  }

  /** Returns a name that is unique in this process, also for events of the same millisecond. */
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
