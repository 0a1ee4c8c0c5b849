export interface ClusterEvent {
  readonly kind: string;
  readonly action: 'added' | 'updated' | 'deleted';
  readonly oldObject: unknown;
  readonly newObject: unknown;
}

/** Maximum number of events to keep; older events are dropped. A pod that missed dropped events is retried after its backoff. */
const maxEvents = 10_000;

const minEventsToDrop = 1024;

/**
 * The cluster events that occurred during scheduling attempts. They are evaluated when an attempt has failed, because the plugins that reject the pod
 * determine the events that may help it.
 */
export class InFlightEvents<T extends { firstEvent: number }> {
  readonly #inFlightPods = new Set<T>();
  #events: ClusterEvent[] = [];
  /** The number of the oldest event that is kept. */
  #firstNumber = 0;

  add(item: T): void {
    item.firstEvent = this.#firstNumber + this.#events.length;
    this.#inFlightPods.add(item);
  }

  record(event: ClusterEvent): void {
    if (this.#inFlightPods.size === 0) return;
    this.#events.push(event);
    if (this.#events.length >= 2 * maxEvents) this.#drop(maxEvents);
  }

  /** Returns the events since the pod's attempt began, or undefined if some of these events were dropped. */
  eventsSince({ firstEvent: since }: T): readonly ClusterEvent[] | undefined {
    return since < this.#firstNumber ? undefined : this.#events.slice(since - this.#firstNumber);
  }

  delete(item: T): void {
    if (!this.#inFlightPods.delete(item)) return;
    // the set iterates in the order of insertion: the first pod has the smallest event number
    const [oldest] = this.#inFlightPods;
    if (oldest === undefined) this.#drop(this.#events.length);
    else if (oldest.firstEvent - this.#firstNumber > minEventsToDrop) this.#drop(oldest.firstEvent - this.#firstNumber);
  }

  #drop(count: number): void {
    this.#firstNumber += count;
    this.#events = this.#events.slice(count);
  }
}
