import type { PriorityLevelConfiguration } from '@oarlock/api/types/flowcontrol-v1';
import type { Clock } from '@oarlock/primitives/clock';
import { QueueSet, type Queue, type QueueRejection, type QueueSetSettings, type QueueState } from './queue-set.ts';
import { SeatDemand, type DemandStatistics } from './seat-demand.ts';

export type Rejection = 'concurrency-limit' | QueueRejection;

/** A queued request, for debug dumps. */
export interface QueuedRequestState {
  readonly seats: number;
  /** The time at which the request was queued, in milliseconds of the monotonic clock. */
  readonly since: number;
  readonly schema: string;
  readonly flow: string;
}
export interface QueueState {
  readonly requests: readonly QueuedRequestState[];
  readonly executing: number;
  readonly virtualStart: number;
}

interface QueuedRequest extends QueuedRequestState {
  readonly queue: Queue;
  readonly decide: (rejection: Rejection | undefined) => void;
  timer: Timer | undefined;
}
interface Queue {
  readonly requests: QueuedRequest[];
  /** The number of seats that all requests in the queue need. */
  seats: number;
  executing: number;
  /** The virtual time at which the next request of the queue starts, in seat-seconds per queue. */
  virtualStart: number;
}

/** The service time that is assumed for a request until the request ends, in seconds. */
const estimatedServiceSeconds = 0.003;
/** The minimum service time that is accounted for a request, in seconds, so that queues alternate even if the clock does not advance. */
const minServiceSeconds = 0.000_1;

interface PriorityLevelSettings {
  readonly exempt: boolean;
  readonly shares: number;
  readonly lendable: number;
  readonly borrowing: number | undefined;
}

/** One priority level: its execution seats, and fair queues for requests that find no free seat (KEP-1040). */
export class PriorityLevel {
  readonly name: string;
  readonly #clock: Clock;
  #uid: string;
  #settings: PriorityLevelSettings;
  readonly #queueSet: QueueSet;
  #usedSeats = 0;
  #nominalSeats = 0;
  #limit = 0;
  readonly #demand: SeatDemand;
  smoothDemand = 0;

  constructor(configuration: PriorityLevelConfiguration, clock: Clock) {
    this.name = configuration.metadata?.name ?? '';
    this.#clock = clock;
    this.#demand = new SeatDemand(clock.monotonic());
    this.#queueSet = new QueueSet(clock, () => this.#recordDemand());
    this.#uid = '';
    this.#settings = settingsOf(configuration);
    this.configure(configuration);
  }

  get uid(): string {
    return this.#uid;
  }
  get exempt(): boolean {
    return this.#settings.exempt;
  }
  get shares(): number {
    return this.#settings.shares;
  }
  /** The number of seats that executing requests occupy. */
  get seatsInUse(): number {
    return this.#usedSeats;
  }
  get queuedRequests(): number {
    return this.#queueSet.requestCount;
  }
  /** The number of seats according to the level's nominalConcurrencyShares. */
  get nominalLimit(): number {
    return this.#nominalSeats;
  }
  /** The number of seats after lending and borrowing. */
  get currentLimit(): number {
    return this.#limit;
  }
  get minLimit(): number {
    return this.#nominalSeats - Math.round((this.#nominalSeats * this.#settings.lendable) / 100);
  }
  get maxLimit(): number {
    const { borrowing } = this.#settings;
    return borrowing === undefined ? Number.POSITIVE_INFINITY : this.#nominalSeats + Math.round((this.#nominalSeats * borrowing) / 100);
  }

  /** The state of the queues, for debug pages. */
  get queues(): readonly QueueState[] {
    return this.#queueSet.state;
  }

  configure(configuration: PriorityLevelConfiguration): void {
    this.#uid = configuration.metadata?.uid ?? '';
    this.#settings = settingsOf(configuration);
    this.#queueSet.configure(this.#settings);
  }

  setNominalLimit(seats: number): void {
    if (this.#nominalSeats === seats) return;
    this.#nominalSeats = seats;
    this.setCurrentLimit(Math.min(this.maxLimit, Math.max(this.minLimit, this.#limit === 0 ? seats : this.#limit)));
  }
  setCurrentLimit(seats: number): void {
    this.#limit = seats;
    this.#dispatch();
  }
  /** Returns the demand since the last call, and resets it. */
  resetDemand(): DemandStatistics {
    return this.#demand.reset(this.#clock.monotonic());
  }

  /**
   * Acquires seats for a request. Returns undefined if the request executes immediately, a promise of the queue that dispatches the
   * request, or the reason of the rejection. `flow` and `signal` are called only if the request is queued.
   */
  acquire(
    seats: number,
    flow: () => string,
    waitMs: number,
    signal: () => AbortSignal,
  ): Queue | undefined | Rejection | Promise<Queue | Rejection> {
    const { exempt, queues } = this.#settings;
    if (exempt || (this.#queueSet.requestCount === 0 && this.#fits(seats))) {
      this.#usedSeats += seats;
      this.#recordDemand();
      return undefined;
    }
    if (queues === 0) return 'concurrency-limit';
    return this.#queueSet.enqueue({ seats, flow: flow(), waitMs, signal: signal() });
  }

  /**
   * Releases the seats of a request that executed for `seconds`. `queue` is the queue that dispatched the request; undefined if it was not
   * queued.
   */
  release(seats: number, queue: Queue | undefined, seconds: number): void {
    this.#usedSeats -= seats;
    if (queue !== undefined) this.#queueSet.complete(queue, seats, seconds);
    this.#recordDemand();
    if (this.#queueSet.requestCount > 0) this.#dispatch();
  }

  /** Returns true if enough seats are free. A request that needs more seats than the limit executes alone. */
  #fits(seats: number): boolean {
    return this.#usedSeats + seats <= this.#limit || (this.#usedSeats === 0 && seats > this.#limit);
  }

  #dispatch(): void {
    this.#queueSet.dispatch((seats) => {
      if (!this.#fits(seats)) return false;
      this.#usedSeats += seats;
      return true;
    });
  }

  #dequeue(entry: QueuedRequest): void {
    const { queue } = entry;
    const at = queue.requests.indexOf(entry);
    if (at < 0) return;
    queue.requests.splice(at, 1);
    this.#beginExecution(entry);
  }
  #beginExecution({ queue, seats }: QueuedRequest): void {
    queue.seats -= seats;
    this.#queuedCount -= 1;
    this.#queuedSeats -= seats;
    this.#recordDemand();
  }

  /** Dispatches queued requests while seats are free, from the queue whose next request would finish first in virtual time (fair queuing). */
  #dispatch(): void {
    while (this.#queuedCount > 0) {
      let best: Queue | undefined;
      let finish = 0;
      for (const queue of this.#queues) {
        const next = queue.requests[0];
        if (next === undefined) continue;
        const end = queue.virtualStart + next.seats * estimatedServiceSeconds;
        if (best === undefined || end < finish) [best, finish] = [queue, end];
      }
      const entry = best?.requests[0];
      if (best === undefined || entry === undefined || !this.#fits(entry.seats)) return;
      best.requests.shift();
      this.#beginExecution(entry);
      this.#virtualTime = Math.max(this.#virtualTime, best.virtualStart);
      best.virtualStart += entry.seats * estimatedServiceSeconds;
      best.executing += 1;
      this.#usedSeats += entry.seats;
      this.#recordDemand();
      entry.decide(undefined);
    }
  }

  #recordDemand(): void {
    this.#demand.set(this.#usedSeats + this.#queueSet.seats, this.#clock.monotonic());
  }
}

function settingsOf({ spec }: PriorityLevelConfiguration): PriorityLevelSettings {
  const { limited, exempt } = spec ?? {};
  const queuing = limited?.limitResponse?.type === 'Queue' ? limited.limitResponse.queuing : undefined;
  return {
    exempt: spec?.type === 'Exempt',
    shares: limited?.nominalConcurrencyShares ?? exempt?.nominalConcurrencyShares ?? 0,
    lendable: limited?.lendablePercent ?? exempt?.lendablePercent ?? 0,
    borrowing: limited?.borrowingLimitPercent,
    queues: Math.min(queuing?.queues ?? 0, 4096),
    handSize: queuing?.handSize ?? 1,
    queueLength: queuing?.queueLengthLimit ?? 0,
  };
}
