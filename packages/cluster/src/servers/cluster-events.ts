import type { Event } from '@oarlock/api/types/core-v1';
import { events } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { formatTime, parseTime } from '@oarlock/api/values/time';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { Client } from '@oarlock/spi/client';
import { controlPlaneObject } from '../hosting/plugin-health-events.ts';

export interface ClusterEvent {
  readonly type: 'Normal' | 'Warning';
  readonly reason: string;
  readonly message: string;
  /** Start of the occurrence, in milliseconds since the epoch. A stored Event that is not older, apart from `sameOccurrenceMs`, is of the same occurrence. */
  readonly since: number;
}

export interface ClusterEventsOptions {
  readonly client: Client;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Servers notice the same occurrence within this time in milliseconds of each other: the interval of their checks, and a margin. */
const sameOccurrenceMs = 120_000;
/** As for other Events (client-go): attempts, and the delay between two of them in milliseconds. */
const [maxTries, retryMs] = [12, 10_000];

/**
 * Writes Events about the cluster that several servers notice. All servers use the same name for a reason: the first one writes the Event of an occurrence,
 * and the Event of a later occurrence increases the count.
 */
export class ClusterEvents {
  readonly #options: ClusterEventsOptions;
  readonly #stop = new AbortController();
  #writing: Promise<void> = Promise.resolve();

  constructor(options: ClusterEventsOptions) {
    this.#options = options;
  }

  /** Writes an Event after those that were recorded before. */
  record(event: ClusterEvent): void {
    this.#writing = this.#writing.then(() => this.#write(event));
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#writing;
  }

  async #write(event: ClusterEvent): Promise<void> {
    const { clock, log } = this.#options;
    const { signal } = this.#stop;
    for (let tries = 1; !signal.aborted; tries += 1) {
      try {
        return await this.#writeOnce(event);
      } catch (error) {
        if (signal.aborted) return;
        // another server wrote it in the meantime: read it again
        const delayMs = isStatus(error, 'Conflict', 'AlreadyExists') ? 0 : retryMs;
        if (tries >= maxTries) {
          log.warn({ err: error, reason: event.reason }, 'gave up writing an event about the cluster');
          return;
        }
        await clock.sleep(delayMs, signal).catch(() => undefined); // aborted: the loop ends
      }
    }
  }

  async #writeOnce({ type, reason, message, since }: ClusterEvent): Promise<void> {
    const { client, clock } = this.#options;
    const { namespace, name: object } = controlPlaneObject.metadata;
    const key = { namespace, name: `${object}.${reason.toLowerCase()}` };
    const options = { signal: this.#stop.signal };
    const lastTimestamp = formatTime(clock.now());
    const stored = await client.get(events, key, options).catch((error: unknown) => {
      if (isStatus(error, 'NotFound')) return undefined;
      throw error;
    });
    if (stored === undefined) {
      const { apiVersion, kind } = controlPlaneObject;
      const involvedObject = { apiVersion, kind, namespace, name: object };
      const fields = { type, reason, message, involvedObject, source: { component: 'oarlock' }, reportingComponent: 'oarlock' };
      const times = { firstTimestamp: lastTimestamp, lastTimestamp, count: 1 };
      await client.create(events, { apiVersion: 'v1', kind: 'Event', metadata: key, ...fields, ...times } as Event, options);
    } else if ((parseTime(stored.lastTimestamp ?? '') ?? 0) < since - sameOccurrenceMs)
      await client.update(
        events,
        { ...stored, apiVersion: 'v1', kind: 'Event', message, lastTimestamp, count: (stored.count ?? 1) + 1 },
        options,
      );
  }
}
