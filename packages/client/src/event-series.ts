import { formatMicroTime } from '@oarlock/api/time';
import type { Event } from '@oarlock/api/types/core-v1';
import type { Correlated } from './event-correlator.ts';
import { LruMap } from './lru-map.ts';

/** The figures of client-go's recorder of events.k8s.io. */
const kept = 4096;
const notedBytes = 1024;
const overMs = 6 * 60_000;

interface Seen {
  readonly event: Event;
  count: number;
  /** Written to the server. */
  told: number;
  at: number;
  lastObserved: string;
}
type Patch = Extract<Correlated, { action: 'patch' }>;

/**
 * What becomes of events that name an action, as client-go's events of events.k8s.io: those that differ in their message at most are a series on
 * the first of them. The second is written at once; what comes after that is counted and written when nothing like it has come for six minutes.
 */
export class EventSeries {
  readonly #seen = new LruMap<string, Seen>(kept);

  /** `now`: milliseconds of any clock that does not run backwards; `wall`: since the epoch. */
  correlate(event: Event, now: number, wall: number): Correlated {
    const key = keyOf(event);
    const last = this.#seen.get(key);
    if (last === undefined || now - last.at > overMs) {
      this.#seen.set(key, { event, count: 1, told: 1, at: now, lastObserved: event.eventTime ?? '' });
      return { action: 'create', key, event };
    }
    last.count += 1;
    last.at = now;
    last.lastObserved = formatMicroTime(wall);
    return last.count === 2 ? this.#patch(key, last) : { action: 'drop' };
  }

  /** The server's version of an event, on which its series is counted. */
  written(key: string, event: Event): void {
    const seen = this.#seen.get(key);
    if (seen !== undefined) this.#seen.set(key, { ...seen, event });
  }

  /** Series that are over, with counts that are not written yet; and whether others are not. */
  over(now: number): { readonly patches: readonly Patch[]; readonly open: boolean } {
    const patches: Patch[] = [];
    let open = false;
    for (const [key, seen] of [...this.#seen.entries()]) {
      if (now - seen.at < overMs) {
        open ||= seen.count > seen.told;
        continue;
      }
      if (seen.count > seen.told) patches.push(this.#patch(key, seen));
      this.#seen.delete(key);
    }
    return { patches, open };
  }

  #patch(key: string, seen: Seen): Patch {
    seen.told = seen.count;
    const series = { count: seen.count, lastObservedTime: seen.lastObserved };
    return { action: 'patch', key, event: { ...seen.event, series }, patch: { series } };
  }
}

export const seriesOverMs = overMs;

/** A note holds so much; the end is left out of longer ones. */
export const asNote = (message: string): string =>
  message.length <= notedBytes ? message : `${message.slice(0, notedBytes - ' ...'.length)} ...`;

function keyOf({ type, action, reason, reportingComponent, reportingInstance, involvedObject, related }: Event): string {
  return JSON.stringify([type, action, reason, reportingComponent, reportingInstance, involvedObject, related]);
}
