import type { Clock } from '../clock.ts';
import { LruMap } from './lru-map.ts';

export interface ExpiringCacheOptions {
  /** The number of entries; when it is exceeded, the least recently read entries are dropped. */
  readonly max: number;
  readonly clock: Pick<Clock, 'now'>;
}

/** A cache of bounded size whose entries expire at a time that is set for each. */
export class ExpiringCache<K, V> {
  readonly #entries: LruMap<K, { readonly value: V; readonly until: number }>;
  readonly #clock: Pick<Clock, 'now'>;

  constructor({ max, clock }: ExpiringCacheOptions) {
    this.#entries = new LruMap(max);
    this.#clock = clock;
  }

  get(key: K): V | undefined {
    const found = this.#entries.get(key);
    return found !== undefined && this.#clock.now() < found.until ? found.value : undefined;
  }

  /** Stores a value until `until`, in milliseconds since the epoch. Drops the entry if that time has passed. */
  set(key: K, value: V, until: number): void {
    if (until > this.#clock.now()) this.#entries.set(key, { value, until });
    else this.#entries.delete(key);
  }
}
