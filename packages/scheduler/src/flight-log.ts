export interface ClusterEvent {
  readonly kind: string;
  readonly on: 'added' | 'updated' | 'deleted';
  readonly old: unknown;
  readonly now: unknown;
}

/** More is not kept for a pod whose binding takes long: it is tried again then. */
const mostKept = 10_000;

/** What happens while pods are being tried: who will refuse a pod, and so what may help it, is known only afterwards. */
export class FlightLog<T extends { since: number }> {
  readonly #flying = new Set<T>();
  #events: ClusterEvent[] = [];
  /** The number of the first event kept. */
  #first = 0;

  add(item: T): void {
    item.since = this.#first + this.#events.length;
    this.#flying.add(item);
  }

  happened(event: ClusterEvent): void {
    if (this.#flying.size === 0) return;
    this.#events.push(event);
    if (this.#events.length >= 2 * mostKept) this.#drop(mostKept);
  }

  /** What has happened since it was added; undefined when that is more than is kept. */
  missed({ since }: T): readonly ClusterEvent[] | undefined {
    return since < this.#first ? undefined : this.#events.slice(since - this.#first);
  }

  delete(item: T): void {
    if (!this.#flying.delete(item)) return;
    // the one that was added first has the smallest number
    const [oldest] = this.#flying;
    if (oldest === undefined) this.#drop(this.#events.length);
    else if (oldest.since - this.#first > 1024) this.#drop(oldest.since - this.#first);
  }

  #drop(count: number): void {
    this.#first += count;
    this.#events = this.#events.slice(count);
  }
}
