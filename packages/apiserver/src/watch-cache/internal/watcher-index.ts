import type { WatchCacheEvent } from '../watch-cache-event.ts';
import type { Watcher } from '../watcher.ts';

/** An index of watchers by their selection, so that an event is only pushed to watchers that may select the object. */
export class WatcherIndex {
  readonly #all = new Set<Watcher>();
  readonly #byKey = new Map<string, Set<Watcher>>();
  readonly #byIndex = new Map<string, Set<Watcher>>();
  readonly #byNamespace = new Map<string, Set<Watcher>>();
  #size = 0;
  #terminated = 0;

  get size(): number {
    return this.#size;
  }
  /** The number of watchers that were terminated because their readers were too slow. */
  get terminatedWatchers(): number {
    return this.#terminated;
  }

  add(watcher: Watcher): void {
    const [map, value] = this.#setsOf(watcher);
    if (map === undefined) this.#all.add(watcher);
    else {
      const bucket = map.get(value);
      if (bucket === undefined) map.set(value, new Set([watcher]));
      else bucket.add(watcher);
    }
    this.#size++;
  }

  remove(watcher: Watcher): void {
    const [map, value] = this.#setsOf(watcher);
    const bucket = map === undefined ? this.#all : map.get(value);
    if (bucket?.delete(watcher) !== true) return;
    if (map !== undefined && bucket.size === 0) map.delete(value);
    this.#size--;
    if (watcher.isTooSlow) this.#terminated++;
  }

  /**
   * Pushes an event to the watchers that may select it. `before` and `now` are the values of the index field in the previous and the current object.
   */
  dispatch(event: WatchCacheEvent, before: string | undefined, now: string | undefined): void {
    push(this.#all, event);
    push(this.#byKey.get(event.key), event);
    if (this.#byIndex.size > 0) {
      if (now !== undefined) push(this.#byIndex.get(now), event);
      if (before !== undefined && before !== now) push(this.#byIndex.get(before), event);
    }
    if (this.#byNamespace.size > 0) {
      const slash = event.key.indexOf('/');
      if (slash > 0) push(this.#byNamespace.get(event.key.slice(0, slash)), event);
    }
  }

  *[Symbol.iterator](): IterableIterator<Watcher> {
    yield* this.#all;
    for (const map of [this.#byKey, this.#byIndex, this.#byNamespace]) for (const bucket of map.values()) yield* bucket;
  }

  #setsOf({ selection: { key, indexed, namespace } }: Watcher): [Map<string, Set<Watcher>> | undefined, string] {
    if (key !== undefined) return [this.#byKey, key];
    if (indexed !== undefined) return [this.#byIndex, indexed];
    return namespace === '' ? [undefined, ''] : [this.#byNamespace, namespace];
  }
}

function push(watchers: Set<Watcher> | undefined, event: WatchCacheEvent): void {
  if (watchers !== undefined) for (const watcher of watchers) watcher.push(event);
}
