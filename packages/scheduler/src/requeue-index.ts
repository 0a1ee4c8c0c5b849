import type { RequeueOn } from '@oarlock/spi/scheduling';

type On = RequeueOn['on'][number];
const anything = '*';

/** Who waits for which kind of change: an event looks only at those that it may help. */
export class RequeueIndex<T extends object> {
  readonly #byEvent = new Map<string, Set<T>>();
  readonly #eventsOf = new Map<T, readonly string[]>();

  get size(): number {
    return this.#eventsOf.size;
  }
  values(): IterableIterator<T> {
    return this.#eventsOf.keys();
  }

  /** `wanted`: what each of those who refused waits for; undefined where one does not say. */
  add(item: T, wanted: readonly (readonly RequeueOn[] | undefined)[]): void {
    const events = new Set<string>();
    for (const each of wanted) {
      if (each === undefined) events.add(anything);
      else for (const { kind, on } of each) for (const what of on) events.add(`${kind} ${what}`);
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

  /** Those that an event may help. A copy: they may be taken out meanwhile. */
  waitingFor(kind: string, on: On): readonly T[] {
    const named = this.#byEvent.get(`${kind} ${on}`);
    const any = this.#byEvent.get(anything);
    if (named === undefined && any === undefined) return [];
    return [...new Set([...(named ?? []), ...(any ?? [])])];
  }
}
