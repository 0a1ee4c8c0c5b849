import type { PriorityLevelConfiguration } from '@oarlock/api/types/flowcontrol-v1';
import type { Clock, Timer } from '@oarlock/primitives/clock';
import { shuffleShard, flowHash } from './shuffle-shard.ts';

export type Rejection = 'concurrency-limit' | 'queue-full' | 'time-out' | 'cancelled';

/** A request that waits: since when, in milliseconds of the monotonic clock, and in which flow of which schema. */
export interface QueuedRequestState {
  readonly seats: number;
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
  /** Seats that are asked for in it. */
  seats: number;
  executing: number;
  /** Virtual time at which its next request begins, in seat-seconds per queue. */
  virtualStart: number;
}

/** How long a request is taken to need until it is known, in seconds. */
const estimatedServiceSeconds = 0.003;
/** Nothing is done in no time: turns are taken also among requests that a clock cannot tell apart. */
const minServiceSeconds = 0.000_1;

interface PriorityLevelSettings {
  readonly exempt: boolean;
  readonly shares: number;
  readonly lendable: number;
  readonly borrowing: number | undefined;
  readonly queues: number;
  readonly handSize: number;
  readonly queueLength: number;
}

/** Seats demanded over a period: what is in use and what is waited for. */
class SeatDemand {
  #value = 0;
  #since: number;
  #sum = 0;
  #squares = 0;
  #high = 0;
  #began: number;
  constructor(now: number) {
    this.#since = now;
    this.#began = now;
  }
  set(value: number, now: number): void {
    const elapsed = now - this.#since;
    this.#sum += this.#value * elapsed;
    this.#squares += this.#value * this.#value * elapsed;
    this.#since = now;
    this.#value = value;
    if (value > this.#high) this.#high = value;
  }
  /** What the period showed; another begins. */
  take(now: number): { readonly average: number; readonly deviation: number; readonly high: number } {
    this.set(this.#value, now);
    const period = Math.max(1, now - this.#began);
    const average = this.#sum / period;
    const deviation = Math.sqrt(Math.max(0, this.#squares / period - average * average));
    const high = this.#high;
    this.#sum = 0;
    this.#squares = 0;
    this.#high = this.#value;
    this.#began = now;
    return { average, deviation, high };
  }
}

/** One priority level: so many seats, and queues for those who find none. KEP-1040. */
export class PriorityLevel {
  readonly name: string;
  readonly #clock: Clock;
  #uid: string;
  #settings: PriorityLevelSettings;
  #queues: Queue[] = [];
  #usedSeats = 0;
  #queuedCount = 0;
  #queuedSeats = 0;
  #virtualTime = 0;
  #nominalSeats = 0;
  #limit = 0;
  readonly #demand: SeatDemand;
  smoothDemand = 0;

  constructor(configuration: PriorityLevelConfiguration, clock: Clock) {
    this.name = configuration.metadata?.name ?? '';
    this.#clock = clock;
    this.#demand = new SeatDemand(clock.monotonic());
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
    return this.#queuedCount;
  }
  /** Seats by its shares. */
  get nominalLimit(): number {
    return this.#nominalSeats;
  }
  /** Seats that it has now, after lending and borrowing. */
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

  /** Its queues as they are, for who looks into the server. */
  get queues(): readonly QueueState[] {
    return this.#queues.map(({ requests, executing, virtualStart }) => ({
      requests: requests.map(({ seats, since, flow, schema }) => ({ seats, since, flow, schema })),
      executing,
      virtualStart,
    }));
  }

  configure(configuration: PriorityLevelConfiguration): void {
    this.#uid = configuration.metadata?.uid ?? '';
    const { queues } = this.#settings;
    this.#settings = settingsOf(configuration);
    if (queues !== this.#settings.queues || this.#queues.length === 0) {
      // who waits in the old queues goes on waiting there
      const busy = this.#queues.filter(({ requests: waiting, executing }) => waiting.length > 0 || executing > 0);
      this.#queues = [...Array.from({ length: this.#settings.queues }, newQueue), ...busy];
    }
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
  resetDemand(): ReturnType<SeatDemand['take']> {
    return this.#demand.take(this.#clock.monotonic());
  }

  /** A place at once (the queue that it counts for, or nothing), a promise of one, or the reason why there is none. */
  acquire(
    seats: number,
    flow: () => string,
    waitMs: number,
    signal: () => AbortSignal,
  ): Queue | undefined | Rejection | Promise<Queue | Rejection> {
    const { exempt, queues } = this.#settings;
    if (exempt || (this.#queuedCount === 0 && this.#fits(seats))) {
      this.#usedSeats += seats;
      this.#recordDemand();
      return undefined;
    }
    if (queues === 0) return 'concurrency-limit';
    return this.#enqueue(seats, flow(), waitMs, signal());
  }

  /** Gives a place back that was held for so many seconds. */
  release(seats: number, queue: Queue | undefined, seconds: number): void {
    this.#usedSeats -= seats;
    if (queue !== undefined) {
      queue.executing -= 1;
      queue.virtualStart += seats * (Math.max(seconds, minServiceSeconds) - estimatedServiceSeconds);
    }
    this.#recordDemand();
    if (this.#queuedCount > 0) this.#dispatch();
  }

  /** A request that needs more than there ever is gets everything. */
  #fits(seats: number): boolean {
    return this.#usedSeats + seats <= this.#limit || (this.#usedSeats === 0 && seats > this.#limit);
  }

  #enqueue(seats: number, flow: string, waitMs: number, signal: AbortSignal): Rejection | Promise<Queue | Rejection> {
    const { queues, handSize, queueLength } = this.#settings;
    let queue: Queue | undefined;
    for (const card of shuffleShard(flowHash(flow), queues, handSize)) {
      const candidate = this.#queues[card];
      if (candidate !== undefined && (queue === undefined || candidate.seats + candidate.executing < queue.seats + queue.executing))
        queue = candidate;
    }
    if (queue === undefined || queue.requests.length >= queueLength) return 'queue-full';
    const chosen = queue;
    if (chosen.requests.length === 0) chosen.virtualStart = Math.max(chosen.virtualStart, this.#virtualTime);
    return new Promise((resolve) => {
      const abandon = () => {
        this.#dequeue(entry);
        entry.decide('cancelled');
      };
      const slash = flow.indexOf('/');
      const entry: QueuedRequest = {
        seats,
        since: this.#clock.monotonic(),
        schema: flow.slice(0, slash),
        flow: flow.slice(slash + 1),
        queue: chosen,
        timer: undefined,
        decide(rejection) {
          entry.timer?.cancel();
          signal.removeEventListener('abort', abandon);
          resolve(rejection ?? chosen);
        },
      };
      entry.timer = this.#clock.after(waitMs, () => {
        this.#dequeue(entry);
        entry.decide('time-out');
      });
      signal.addEventListener('abort', abandon, { once: true });
      chosen.requests.push(entry);
      chosen.seats += seats;
      this.#queuedCount += 1;
      this.#queuedSeats += seats;
      this.#recordDemand();
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

  /** The queue whose next request would be done first goes first: no flow gets more than its share however much it asks for. */
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
    this.#demand.set(this.#usedSeats + this.#queuedSeats, this.#clock.monotonic());
  }
}
export type { Queue };

const newQueue = (): Queue => ({ requests: [], seats: 0, executing: 0, virtualStart: 0 });

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
