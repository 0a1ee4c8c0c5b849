import type { Event } from '@oarlock/api/types/core-v1';
import { LruMap } from './lru-map.ts';
import { TokenBucket } from './rate-limiter.ts';

/** What to do about an event: write it, or count it on one that was written before. */
export type Correlated =
  | { readonly action: 'create'; readonly key: string; readonly event: Event }
  | { readonly action: 'patch'; readonly key: string; readonly event: Event; readonly patch: unknown }
  | { readonly action: 'drop' };

interface Similar {
  readonly messages: Set<string>;
  at: number;
}
interface Seen {
  readonly count: number;
  readonly first: string;
  readonly name: string;
  readonly resourceVersion: string;
}

/** The figures of client-go's EventCorrelator. */
const kept = 4096;
const similarLimit = 10;
const similarWindowMs = 600_000;
const burst = 25;
const perSecond = 1 / 300;

/**
 * Keeps events from piling up, as client-go does: an event that was seen before is counted on the one that was written; when more than ten with
 * the same reason about the same object differ in their message only, within ten minutes of each other, they become one; and one
 * source writes at most 25 about an object at once and one in five minutes after that.
 */
export class EventCorrelator {
  readonly #similar = new LruMap<string, Similar>(kept);
  readonly #seen = new LruMap<string, Seen>(kept);
  readonly #buckets = new LruMap<string, TokenBucket>(kept);

  /** `now`: milliseconds of any clock that does not run backwards. `name` makes the name of a combined event. */
  correlate(event: Event, now: number, name: () => string): Correlated {
    const { key, event: joined } = this.#aggregate(event, now, name);
    const counted = this.#count(key, joined);
    return this.#spam(event, now) ? { action: 'drop' } : counted;
  }

  /** Tells what the server made of the event, so that the next one like it counts on it. */
  written(key: string, event: Event): void {
    const { metadata, count = 1, firstTimestamp = '' } = event;
    this.#seen.set(key, { count, first: firstTimestamp, name: metadata?.name ?? '', resourceVersion: metadata?.resourceVersion ?? '' });
  }

  #aggregate(event: Event, now: number, name: () => string): { key: string; event: Event } {
    const key = aggregateKey(event);
    const whole = JSON.stringify([key, event.message, event.involvedObject.fieldPath]);
    let similar = this.#similar.get(key);
    if (similar === undefined || now - similar.at > similarWindowMs) this.#similar.set(key, (similar = { messages: new Set(), at: now }));
    similar.at = now;
    similar.messages.add(event.message ?? '');
    if (similar.messages.size < similarLimit) return { key: whole, event };
    const [any = ''] = similar.messages;
    similar.messages.delete(any);
    return {
      key,
      event: {
        ...event,
        metadata: { ...event.metadata, name: name() },
        message: `(combined from similar events): ${event.message}`,
        count: 1,
        ...(event.lastTimestamp !== undefined && { firstTimestamp: event.lastTimestamp }),
      },
    };
  }

  #count(key: string, event: Event): Correlated {
    const last = this.#seen.get(key);
    if (last === undefined) {
      this.written(key, event);
      return { action: 'create', key, event };
    }
    const count = last.count + 1;
    const next: Event = {
      ...event,
      count,
      firstTimestamp: last.first,
      metadata: { ...event.metadata, name: last.name, resourceVersion: last.resourceVersion },
    };
    this.written(key, next);
    return { action: 'patch', key, event: next, patch: { count, lastTimestamp: next.lastTimestamp, message: next.message } };
  }

  #spam({ source, involvedObject: { kind, namespace, name, uid, apiVersion } }: Event, now: number): boolean {
    const key = JSON.stringify([source?.component, source?.host, kind, namespace, name, uid, apiVersion]);
    let bucket = this.#buckets.get(key);
    if (bucket === undefined) this.#buckets.set(key, (bucket = new TokenBucket({ perSecond, burst, now })));
    return !bucket.tryTake(now);
  }
}

function aggregateKey({
  source,
  involvedObject: { kind, namespace, name, uid, apiVersion },
  type,
  reason,
  reportingComponent,
  reportingInstance,
}: Event): string {
  return JSON.stringify([
    source?.component,
    source?.host,
    kind,
    namespace,
    name,
    uid,
    apiVersion,
    type,
    reason,
    reportingComponent,
    reportingInstance,
  ]);
}

/** `<object>.<hex of nanoseconds>`; long names are cut so that the whole stays a valid name. */
export function eventName(object: string, nanoseconds: bigint): string {
  const suffix = `.${nanoseconds.toString(16)}`;
  return `${object.slice(0, 253 - suffix.length).replace(/[^a-z0-9]+$/, '')}${suffix}`;
}
