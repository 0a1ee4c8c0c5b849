import type { PriorityLevelConfiguration } from '@oarlock/api/types/flowcontrol-v1';
import type { Clock } from '@oarlock/primitives/clock';
import { QueueSet, type Queue, type QueueRejection, type QueueSetSettings, type QueueState } from './queue-set.ts';
import { SeatDemand, type DemandStatistics } from './seat-demand.ts';

export type Rejection = 'concurrency-limit' | QueueRejection;

interface PriorityLevelSettings extends QueueSetSettings {
  readonly exempt: boolean;
  readonly shares: number;
  readonly lendable: number;
  readonly borrowing: number | undefined;
}

/** The flow that requests a seat, and how long it may wait in a queue, in milliseconds. */
export interface SeatRequest {
  readonly flow: () => string;
  readonly waitMs: number;
  readonly signal: () => AbortSignal;
}

/** One priority level: execution seats, and fair queues for requests that find no free seat (KEP-1040). */
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
  /** Seats in use. */
  get seatsInUse(): number {
    return this.#usedSeats;
  }
  get queuedRequests(): number {
    return this.#queueSet.requestCount;
  }
  /** Seats by the level's shares. */
  get nominalLimit(): number {
    return this.#nominalSeats;
  }
  /** Seats after lending and borrowing. */
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

  /** The state of the queues, for debug dumps. */
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
  /** Returns the demand since the last call. */
  resetDemand(): DemandStatistics {
    return this.#demand.reset(this.#clock.monotonic());
  }

  /**
   * Acquires seats for a request. Returns undefined if the request executes immediately, a promise of the queue that dispatched it, or the
   * reason of its rejection. `flow` and `signal` are called only if the request is queued.
   */
  acquire(seats: number, { flow, waitMs, signal }: SeatRequest): Queue | undefined | Rejection | Promise<Queue | Rejection> {
    const { exempt, queues } = this.#settings;
    if (exempt || (this.#queueSet.requestCount === 0 && this.#fits(seats))) {
      this.#usedSeats += seats;
      this.#recordDemand();
      return undefined;
    }
    if (queues === 0) return 'concurrency-limit';
    return this.#queueSet.enqueue({ seats, flow: flow(), waitMs, signal: signal() });
  }

  /** Releases the seats of a request that executed for `seconds`. `queue`: the queue that dispatched it, if it was queued. */
  release(seats: number, queue: Queue | undefined, seconds: number): void {
    this.#usedSeats -= seats;
    if (queue !== undefined) this.#queueSet.complete(queue, seats, seconds);
    this.#recordDemand();
    if (this.#queueSet.requestCount > 0) this.#dispatch();
  }

  /** A request that needs more seats than the limit executes alone. */
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
