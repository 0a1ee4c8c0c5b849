import { performance, type EventLoopUtilization } from 'node:perf_hooks';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { Clock, Timer } from '@oarlock/primitives/clock';

/** Interval in which the process is observed. */
const periodMs = 15_000;
/** A process is idle if its event loop is busy for less than this part of a period. An embedded cluster with three pods: 0.01. */
const idleUtilization = 0.03;
/** A heap is collected if it has grown by this since the last collection. Bytes. */
const minGrowth = 12 * 1024 * 1024;
/** A larger heap is not collected: the event loop stops for about 1.7 ms per MiB of live objects. Bytes. */
const maxHeap = 96 * 1024 * 1024;

export interface HeapSize {
  readonly heapUsed: number;
  readonly heapTotal: number;
}

export interface IdleCollectorOptions {
  readonly clock: Pick<Clock, 'after'>;
  readonly utilization?: (from?: EventLoopUtilization) => EventLoopUtilization;
  readonly heap?: () => HeapSize;
  readonly collect?: () => void;
}

/**
 * Collects garbage when the process is idle. V8 collects as a process allocates, so an idle process keeps what its start or a burst of requests left behind
 * (ADR 69).
 */
export class IdleCollector {
  readonly #clock: Pick<Clock, 'after'>;
  readonly #utilization: (from?: EventLoopUtilization) => EventLoopUtilization;
  readonly #heap: () => HeapSize;
  #collect: (() => void) | undefined;
  #observed: EventLoopUtilization | undefined;
  /** Total size of the heap a period after the last collection, which frees memory in the background; 0 before the first. */
  #collectedTotal = 0;
  /** True from a collection until the next observation. */
  #hasCollected = false;
  #timer: Timer | undefined;

  constructor({ clock, utilization, heap, collect }: IdleCollectorOptions) {
    this.#clock = clock;
    this.#utilization = utilization ?? ((from) => performance.eventLoopUtilization(from));
    this.#heap = heap ?? (() => process.memoryUsage());
    this.#collect = collect;
  }

  start(): void {
    this.#observed = this.#utilization();
    this.#timer = this.#clock.after(periodMs, () => this.#observe());
  }

  stop(): void {
    this.#timer?.cancel();
  }

  #observe(): void {
    const { utilization } = this.#utilization(this.#observed);
    const { heapUsed, heapTotal } = this.#heap();
    if (this.#hasCollected) this.#collectedTotal = heapTotal;
    this.#hasCollected = utilization < idleUtilization && heapUsed <= maxHeap && heapTotal - this.#collectedTotal >= minGrowth;
    if (this.#hasCollected) (this.#collect ??= exposedCollector())();
    this.start();
  }
}

/** Returns V8's function that collects all garbage. Only contexts that are created while the flag is set have it. */
function exposedCollector(): () => void {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  setFlagsFromString('--no-expose-gc');
  return collect;
}
