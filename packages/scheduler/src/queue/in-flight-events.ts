export interface ClusterEvent {
  readonly kind: string;
  readonly action: 'added' | 'updated' | 'deleted';
  readonly oldObject: unknown;
  readonly newObject: unknown;
}

/** Older events are dropped; a pod that missed dropped events is retried after its backoff. */
const maxEvents = 10_000;

const minEventsToDrop = 1024;

/**
 * The cluster events during the attempts of pods. Which events may help a pod depends on the plugins that reject it, so they are
 * evaluated when the attempt has failed.
 */
export class InFlightEvents<T extends { firstEvent: number }> {
  readonly #inFlightPods = new Set<T>();
  #events: ClusterEvent[] = [];
  /** The number of the oldest event kept. */
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

  /** Returns the events since the pod's attempt began, or undefined if some of them were dropped. */
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
