import type { Event } from '@oarlock/api/types/core-v1';
import { LruMap } from '@oarlock/primitives/collections/lru-map';
import { TokenBucket } from '@oarlock/primitives/workqueue/rate-limiter';

/** The result for an event: create the event, count it on an existing event, or drop it. */
export type EventCorrelateResult =
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

/** Values of client-go's EventCorrelator. */
const maxEntries = 4096;
const similarLimit = 10;
const similarWindowMs = 600_000;
const burst = 25;
const perSecond = 1 / 300;

/**
 * Limits the number of Events, as client-go's EventCorrelator does:
 *
 * - an event that was seen before increases the count of the existing one;
 * - more than ten events about an object that differ in their message only, each within ten minutes of the last, are combined;
 * - one source may write 25 events about an object at once, and then one every five minutes.
 */
export class EventCorrelator {
  readonly #similar = new LruMap<string, Similar>(maxEntries);
  readonly #seen = new LruMap<string, Seen>(maxEntries);
  readonly #buckets = new LruMap<string, TokenBucket>(maxEntries);

  /** `now`: milliseconds of a monotonic clock. `name` returns the name for a combined event. */
  correlate(event: Event, now: number, name: () => string): EventCorrelateResult {
    const { key, event: joined } = this.#aggregate(event, now, name);
    const counted = this.#count(key, joined);
    return this.#isSpam(event, now) ? { action: 'drop' } : counted;
  }

  /** Records the event as the server stored it, so that later events are counted on it. */
  updateState(key: string, event: Event): void {
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

  #count(key: string, event: Event): EventCorrelateResult {
    const last = this.#seen.get(key);
    if (last === undefined) {
      this.updateState(key, event);
      return { action: 'create', key, event };
    }
    const count = last.count + 1;
    const next: Event = {
      ...event,
      count,
      firstTimestamp: last.first,
      metadata: { ...event.metadata, name: last.name, resourceVersion: last.resourceVersion },
    };
    this.updateState(key, next);
    return { action: 'patch', key, event: next, patch: { count, lastTimestamp: next.lastTimestamp, message: next.message } };
  }

  #isSpam({ source, involvedObject: { kind, namespace, name, uid, apiVersion } }: Event, now: number): boolean {
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

/** Returns `<object>.<hex of nanoseconds>`. Long object names are truncated, so that the result is a valid name. */
export function eventName(object: string, nanoseconds: bigint): string {
  const suffix = `.${nanoseconds.toString(16)}`;
  return `${object.slice(0, 253 - suffix.length).replace(/[^a-z0-9]+$/, '')}${suffix}`;
}
