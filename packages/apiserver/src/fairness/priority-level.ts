import type { PriorityLevelConfiguration } from '@oarlock/api/types/flowcontrol-v1';
import type { Clock, Timer } from '@oarlock/kernel/clock';
import { deal, hashOf } from './shuffle-shard.ts';

export type Rejection = 'concurrency-limit' | 'queue-full' | 'time-out' | 'cancelled';

/** A request that waits: since when, in milliseconds of the monotonic clock, and in which flow of which schema. */
export interface WaitingState {
  readonly seats: number;
  readonly since: number;
  readonly schema: string;
  readonly flow: string;
}
export interface QueueState {
  readonly waiting: readonly WaitingState[];
  readonly executing: number;
  readonly start: number;
}

interface Waiting extends WaitingState {
  readonly queue: Queue;
  readonly decide: (rejection: Rejection | undefined) => void;
  timer: Timer | undefined;
}
interface Queue {
  readonly waiting: Waiting[];
  /** Seats that are asked for in it. */
  seats: number;
  executing: number;
  /** Virtual time at which its next request begins, in seat-seconds per queue. */
  start: number;
}

/** How long a request is taken to need until it is known, in seconds. */
const guessSeconds = 0.003;
/** Nothing is done in no time: turns are taken also among requests that a clock cannot tell apart. */
const leastSeconds = 0.000_1;

interface Settings {
  readonly exempt: boolean;
  readonly shares: number;
  readonly lendable: number;
  readonly borrowing: number | undefined;
  readonly queues: number;
  readonly handSize: number;
  readonly queueLength: number;
}

/** Seats demanded over a period: what is in use and what is waited for. */
class Demand {
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
  #settings: Settings;
  #queues: Queue[] = [];
  #inUse = 0;
  #waiting = 0;
  #waitingSeats = 0;
  #virtual = 0;
  #nominal = 0;
  #limit = 0;
  readonly #demand: Demand;
  smoothDemand = 0;

  constructor(configuration: PriorityLevelConfiguration, clock: Clock) {
    this.name = configuration.metadata?.name ?? '';
    this.#clock = clock;
    this.#demand = new Demand(clock.monotonic());
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
  get inUse(): number {
    return this.#inUse;
  }
  get waiting(): number {
    return this.#waiting;
  }
  /** Seats by its shares. */
  get nominal(): number {
    return this.#nominal;
  }
  /** Seats that it has now, after lending and borrowing. */
  get limit(): number {
    return this.#limit;
  }
  get least(): number {
    return this.#nominal - Math.round((this.#nominal * this.#settings.lendable) / 100);
  }
  get most(): number {
    const { borrowing } = this.#settings;
    return borrowing === undefined ? Number.POSITIVE_INFINITY : this.#nominal + Math.round((this.#nominal * borrowing) / 100);
  }

  /** Its queues as they are, for who looks into the server. */
  get queues(): readonly QueueState[] {
    return this.#queues.map(({ waiting, executing, start }) => ({
      waiting: waiting.map(({ seats, since, flow, schema }) => ({ seats, since, flow, schema })),
      executing,
      start,
    }));
  }

  configure(configuration: PriorityLevelConfiguration): void {
    this.#uid = configuration.metadata?.uid ?? '';
    const { queues } = this.#settings;
    this.#settings = settingsOf(configuration);
    if (queues !== this.#settings.queues || this.#queues.length === 0) {
      // who waits in the old queues goes on waiting there
      const busy = this.#queues.filter(({ waiting, executing }) => waiting.length > 0 || executing > 0);
      this.#queues = [...Array.from({ length: this.#settings.queues }, newQueue), ...busy];
    }
  }

  setNominal(seats: number): void {
    if (this.#nominal === seats) return;
    this.#nominal = seats;
    this.setLimit(Math.min(this.most, Math.max(this.least, this.#limit === 0 ? seats : this.#limit)));
  }
  setLimit(seats: number): void {
    this.#limit = seats;
    this.#dispatch();
  }
  takeDemand(): ReturnType<Demand['take']> {
    return this.#demand.take(this.#clock.monotonic());
  }

  /** A place at once (the queue that it counts for, or nothing), a promise of one, or the reason why there is none. */
  enter(
    seats: number,
    flow: () => string,
    waitMs: number,
    signal: () => AbortSignal,
  ): Queue | undefined | Rejection | Promise<Queue | Rejection> {
    const { exempt, queues } = this.#settings;
    if (exempt || (this.#waiting === 0 && this.#fits(seats))) {
      this.#inUse += seats;
      this.#changed();
      return undefined;
    }
    if (queues === 0) return 'concurrency-limit';
    return this.#queue(seats, flow(), waitMs, signal());
  }

  /** Gives a place back that was held for so many seconds. */
  leave(seats: number, queue: Queue | undefined, seconds: number): void {
    this.#inUse -= seats;
    if (queue !== undefined) {
      queue.executing -= 1;
      queue.start += seats * (Math.max(seconds, leastSeconds) - guessSeconds);
    }
    this.#changed();
    if (this.#waiting > 0) this.#dispatch();
  }

  /** A request that needs more than there ever is gets everything. */
  #fits(seats: number): boolean {
    return this.#inUse + seats <= this.#limit || (this.#inUse === 0 && seats > this.#limit);
  }

  #queue(seats: number, flow: string, waitMs: number, signal: AbortSignal): Rejection | Promise<Queue | Rejection> {
    const { queues, handSize, queueLength } = this.#settings;
    let queue: Queue | undefined;
    for (const card of deal(hashOf(flow), queues, handSize)) {
      const candidate = this.#queues[card];
      if (candidate !== undefined && (queue === undefined || candidate.seats + candidate.executing < queue.seats + queue.executing))
        queue = candidate;
    }
    if (queue === undefined || queue.waiting.length >= queueLength) return 'queue-full';
    const chosen = queue;
    if (chosen.waiting.length === 0) chosen.start = Math.max(chosen.start, this.#virtual);
    return new Promise((resolve) => {
      const abandon = () => {
        this.#remove(entry);
        entry.decide('cancelled');
      };
      const slash = flow.indexOf('/');
      const entry: Waiting = {
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
        this.#remove(entry);
        entry.decide('time-out');
      });
      signal.addEventListener('abort', abandon, { once: true });
      chosen.waiting.push(entry);
      chosen.seats += seats;
      this.#waiting += 1;
      this.#waitingSeats += seats;
      this.#changed();
    });
  }

  #remove(entry: Waiting): void {
    const { queue } = entry;
    const at = queue.waiting.indexOf(entry);
    if (at < 0) return;
    queue.waiting.splice(at, 1);
    this.#taken(entry);
  }
  #taken({ queue, seats }: Waiting): void {
    queue.seats -= seats;
    this.#waiting -= 1;
    this.#waitingSeats -= seats;
    this.#changed();
  }

  /** The queue whose next request would be done first goes first: no flow gets more than its share however much it asks for. */
  #dispatch(): void {
    while (this.#waiting > 0) {
      let best: Queue | undefined;
      let finish = 0;
      for (const queue of this.#queues) {
        const next = queue.waiting[0];
        if (next === undefined) continue;
        const end = queue.start + next.seats * guessSeconds;
        if (best === undefined || end < finish) [best, finish] = [queue, end];
      }
      const entry = best?.waiting[0];
      if (best === undefined || entry === undefined || !this.#fits(entry.seats)) return;
      best.waiting.shift();
      this.#taken(entry);
      this.#virtual = Math.max(this.#virtual, best.start);
      best.start += entry.seats * guessSeconds;
      best.executing += 1;
      this.#inUse += entry.seats;
      this.#changed();
      entry.decide(undefined);
    }
  }

  #changed(): void {
    this.#demand.set(this.#inUse + this.#waitingSeats, this.#clock.monotonic());
  }
}
export type { Queue };

const newQueue = (): Queue => ({ waiting: [], seats: 0, executing: 0, start: 0 });

function settingsOf({ spec }: PriorityLevelConfiguration): Settings {
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
