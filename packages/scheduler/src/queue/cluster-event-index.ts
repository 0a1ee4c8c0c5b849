import type { ClusterEventWithHint } from '@oarlock/spi/scheduling';

type EventAction = ClusterEventWithHint['actions'][number];
const anyEvent = '*';

/** Indexes items by the events that may help them, so that an event does not visit all items. */
export class ClusterEventIndex<T extends object> {
  readonly #byEvent = new Map<string, Set<T>>();
  readonly #eventsOf = new Map<T, readonly string[]>();

  get size(): number {
    return this.#eventsOf.size;
  }
  values(): IterableIterator<T> {
    return this.#eventsOf.keys();
  }

  /** Adds an item. `registered` contains the events that each plugin which rejected the item registered for; undefined means every event. */
  add(item: T, registered: readonly (readonly ClusterEventWithHint[] | undefined)[]): void {
    const events = new Set<string>();
    for (const each of registered) {
      if (each === undefined) events.add(anyEvent);
      else for (const { kind, actions } of each) for (const action of actions) events.add(`${kind} ${action}`);
    }
    this.#eventsOf.set(item, [...events]);
    for (const event of events) {
      const found = this.#byEvent.get(event);
      if (found === undefined) this.#byEvent.set(event, new Set([item]));
      else found.add(item);
    }
  }

  delete(item: T): void {
    for (const event of this.#eventsOf.get(item) ?? []) {
      const found = this.#byEvent.get(event);
      found?.delete(item);
      if (found?.size === 0) this.#byEvent.delete(event);
    }
    this.#eventsOf.delete(item);
  }

  /** Returns the items that an event may help. The result is a copy, because callers delete items while they iterate. */
  itemsForEvent(kind: string, action: EventAction): readonly T[] {
    const named = this.#byEvent.get(`${kind} ${action}`);
    const any = this.#byEvent.get(anyEvent);
    if (named === undefined && any === undefined) return [];
    return [...new Set([...(named ?? []), ...(any ?? [])])];
  }
}
