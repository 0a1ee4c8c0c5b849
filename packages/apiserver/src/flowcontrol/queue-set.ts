import type { Clock, Timer } from '@oarlock/primitives/clock';
import { flowHash, shuffleShard } from './shuffle-shard.ts';

/** Why a queued request was not dispatched. */
export type QueueRejection = 'queue-full' | 'time-out' | 'cancelled';

/** A queued request, for debug dumps. */
export interface QueuedRequestState {
  readonly seats: number;
  /** Milliseconds of the monotonic clock at which the request was queued. */
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
  readonly decide: (rejection: QueueRejection | undefined) => void;
  timer: Timer | undefined;
}
export interface Queue {
  readonly requests: QueuedRequest[];
  /** Seats that the queued requests need. */
  seats: number;
  executing: number;
  /** Virtual time at which the next request of the queue starts, in seat-seconds per queue. */
  virtualStart: number;
}

export interface QueueSetSettings {
  readonly queues: number;
  readonly handSize: number;
  readonly queueLength: number;
}

export interface QueueSetRequest {
  readonly seats: number;
  /** `schema/flow distinguisher`. */
  readonly flow: string;
  /** Milliseconds after which the request is rejected. */
  readonly waitMs: number;
  readonly signal: AbortSignal;
}

/** Estimated service time of a request until it ends, in seconds. */
const estimatedServiceSeconds = 0.003;
/** Minimum accounted service time: queues alternate even if the clock does not advance during requests. */
const minServiceSeconds = 0.000_1;

/** The queues of one priority level: shuffle sharding assigns flows to queues, and fair queuing by virtual time dispatches (KEP-1040). */
export class QueueSet {
  readonly #clock: Clock;
  readonly #onChange: () => void;
  #settings: QueueSetSettings = { queues: 0, handSize: 1, queueLength: 0 };
  #queues: Queue[] = [];
  #requestCount = 0;
  #seats = 0;
  #virtualTime = 0;

  /** `onChange` is called after each change of the queued seats. */
  constructor(clock: Clock, onChange: () => void) {
    this.#clock = clock;
    this.#onChange = onChange;
  }

  /** The number of queued requests. */
  get requestCount(): number {
    return this.#requestCount;
  }
  /** Seats that the queued requests need. */
  get seats(): number {
    return this.#seats;
  }
  get state(): readonly QueueState[] {
    return this.#queues.map(({ requests, executing, virtualStart }) => ({
      requests: requests.map(({ seats, since, flow, schema }) => ({ seats, since, flow, schema })),
      executing,
      virtualStart,
    }));
  }

  configure(settings: QueueSetSettings): void {
    const { queues } = this.#settings;
    this.#settings = settings;
    if (queues === settings.queues && this.#queues.length > 0) return;
    // requests in the old queues stay there
    const busy = this.#queues.filter(({ requests, executing }) => requests.length > 0 || executing > 0);
    this.#queues = [...Array.from({ length: settings.queues }, newQueue), ...busy];
  }

  /** Queues a request. Resolves with its queue when the request is dispatched, or with the reason of its rejection. */
  enqueue({ seats, flow, waitMs, signal }: QueueSetRequest): QueueRejection | Promise<Queue | QueueRejection> {
    const queue = this.#shortestQueue(flow);
    if (queue === undefined || queue.requests.length >= this.#settings.queueLength) return 'queue-full';
    if (queue.requests.length === 0) queue.virtualStart = Math.max(queue.virtualStart, this.#virtualTime);
    return new Promise((resolve) => {
      const cancel = () => {
        this.#dequeue(request);
        request.decide('cancelled');
      };
      const slash = flow.indexOf('/');
      const request: QueuedRequest = {
        seats,
        since: this.#clock.monotonic(),
        schema: flow.slice(0, slash),
        flow: flow.slice(slash + 1),
        queue,
        timer: undefined,
        decide(rejection) {
          request.timer?.cancel();
          signal.removeEventListener('abort', cancel);
          resolve(rejection ?? queue);
        },
      };
      request.timer = this.#clock.after(waitMs, () => {
        this.#dequeue(request);
        request.decide('time-out');
      });
      signal.addEventListener('abort', cancel, { once: true });
      queue.requests.push(request);
      queue.seats += seats;
      this.#requestCount += 1;
      this.#seats += seats;
      this.#onChange();
    });
  }

  /** Returns the queue with the fewest queued and executing seats among the hand that shuffle sharding deals to the flow. */
  #shortestQueue(flow: string): Queue | undefined {
    const { queues, handSize } = this.#settings;
    let shortest: Queue | undefined;
    for (const index of shuffleShard(flowHash(flow), queues, handSize)) {
      const queue = this.#queues[index];
      if (queue !== undefined && (shortest === undefined || queue.seats + queue.executing < shortest.seats + shortest.executing))
        shortest = queue;
    }
    return shortest;
  }

  /**
   * Dispatches requests while `start` returns true, which occupies the seats of a request. The queue whose next request would finish first in
   * virtual time is next (fair queuing).
   */
  dispatch(start: (seats: number) => boolean): void {
    while (this.#requestCount > 0) {
      let best: Queue | undefined;
      let finish = 0;
      for (const queue of this.#queues) {
        const next = queue.requests[0];
        if (next === undefined) continue;
        const end = queue.virtualStart + next.seats * estimatedServiceSeconds;
        if (best === undefined || end < finish) [best, finish] = [queue, end];
      }
      const request = best?.requests[0];
      if (best === undefined || request === undefined || !start(request.seats)) return;
      best.requests.shift();
      this.#remove(request);
      this.#virtualTime = Math.max(this.#virtualTime, best.virtualStart);
      best.virtualStart += request.seats * estimatedServiceSeconds;
      best.executing += 1;
      request.decide(undefined);
    }
  }

  /** Accounts the end of a dispatched request that executed for `seconds`. */
  complete(queue: Queue, seats: number, seconds: number): void {
    queue.executing -= 1;
    queue.virtualStart += seats * (Math.max(seconds, minServiceSeconds) - estimatedServiceSeconds);
  }

  #dequeue(request: QueuedRequest): void {
    const at = request.queue.requests.indexOf(request);
    if (at < 0) return;
    request.queue.requests.splice(at, 1);
    this.#remove(request);
  }

  #remove({ queue, seats }: QueuedRequest): void {
    queue.seats -= seats;
    this.#requestCount -= 1;
    this.#seats -= seats;
    this.#onChange();
  }
}

const newQueue = (): Queue => ({ requests: [], seats: 0, executing: 0, virtualStart: 0 });
