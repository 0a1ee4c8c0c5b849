import { formatMicroTime } from '@oarlock/api/values/time';
import type { Event } from '@oarlock/api/types/core-v1';
import type { EventCorrelateResult } from './event-correlator.ts';
import { LruMap } from '@oarlock/primitives/collections/lru-map';

/** Values of client-go's recorder of events.k8s.io. */
const maxEntries = 4096;
const maxNoteBytes = 1024;
const overMs = 6 * 60_000;

interface Seen {
  readonly event: Event;
  count: number;
  /** The count that was last written to the server. */
  writtenCount: number;
  at: number;
  lastObserved: string;
}
type Patch = Extract<EventCorrelateResult, { action: 'patch' }>;

/**
 * Correlates events that have an action, as client-go's recorder of events.k8s.io does: events that differ at most in their message form a series on
 * the first event. The second event is written immediately; the count of further events is written after six minutes without an event.
 */
export class EventSeries {
  readonly #seen = new LruMap<string, Seen>(maxEntries);

  /** `now`: milliseconds of a monotonic clock; `wall`: milliseconds since the epoch. */
  correlate(event: Event, now: number, wall: number): EventCorrelateResult {
    const key = keyOf(event);
    const last = this.#seen.get(key);
    if (last === undefined || now - last.at > overMs) {
      this.#seen.set(key, { event, count: 1, writtenCount: 1, at: now, lastObserved: event.eventTime ?? '' });
      return { action: 'create', key, event };
    }
    last.count += 1;
    last.at = now;
    last.lastObserved = formatMicroTime(wall);
    return last.count === 2 ? this.#patch(key, last) : { action: 'drop' };
  }

  /** Records the event as stored by the server, on which its series is counted. */
  updateState(key: string, event: Event): void {
    const seen = this.#seen.get(key);
    if (seen !== undefined) this.#seen.set(key, { ...seen, event });
  }

  /** Returns patches for series that have ended with unwritten counts; `open` is true if other series have unwritten counts. */
  endedSeries(now: number): { readonly patches: readonly Patch[]; readonly open: boolean } {
    const patches: Patch[] = [];
    let open = false;
    for (const [key, seen] of [...this.#seen.entries()]) {
      if (now - seen.at < overMs) {
        open ||= seen.count > seen.writtenCount;
        continue;
      }
      if (seen.count > seen.writtenCount) patches.push(this.#patch(key, seen));
      this.#seen.delete(key);
    }
    return { patches, open };
  }

  #patch(key: string, seen: Seen): Patch {
    seen.writtenCount = seen.count;
    const series = { count: seen.count, lastObservedTime: seen.lastObserved };
    return { action: 'patch', key, event: { ...seen.event, series }, patch: { series } };
  }
}

export const seriesOverMs = overMs;

/** Truncates a message to the maximum length of an Event's note. */
export const truncateNote = (message: string): string =>
  message.length <= maxNoteBytes ? message : `${message.slice(0, maxNoteBytes - ' ...'.length)} ...`;

function keyOf({ type, action, reason, reportingComponent, reportingInstance, involvedObject, related }: Event): string {
  return JSON.stringify([type, action, reason, reportingComponent, reportingInstance, involvedObject, related]);
}
