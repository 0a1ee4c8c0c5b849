import type { Clock, Timer } from '@oarlock/kernel/clock';

export interface BatchOptions {
  /** How many may wait; more are dropped. */
  readonly bufferSize: number;
  readonly maxSize: number;
  /** How long the first of a batch waits for others. */
  readonly maxWaitMs: number;
  /** Batches a second, and how many may come at once. Absent: as many as there are. */
  readonly throttle?: { readonly qps: number; readonly burst: number } | undefined;
  readonly clock: Clock;
  /** Never rejects. When the signal is aborted there is no time left for another attempt. */
  send(batch: readonly string[], signal: AbortSignal): Promise<void>;
}

/** Collects lines into batches: sent when they are full or have waited long enough, one after the other. */
export class Batches {
  readonly #options: BatchOptions;
  #waiting: string[] = [];
  #inFlight = 0;
  #timer: Timer | undefined;
  #sending: Promise<void> | undefined;
  readonly #abort = new AbortController();
  #tokens: number;
  #filledAt: number;

  constructor(options: BatchOptions) {
    this.#options = options;
    this.#tokens = options.throttle?.burst ?? 0;
    this.#filledAt = options.clock.monotonic();
  }

  /** False: there is no room. */
  add(line: string): boolean {
    const { bufferSize, maxSize, maxWaitMs, clock } = this.#options;
    if (this.#abort.signal.aborted || this.#waiting.length + this.#inFlight >= bufferSize) return false;
    this.#waiting.push(line);
    if (this.#sending !== undefined) return true;
    if (this.#waiting.length >= maxSize) this.#begin();
    else this.#timer ??= clock.after(maxWaitMs, () => this.#begin());
    return true;
  }

  /** Sends what waits, at once. */
  async stop(): Promise<void> {
    this.#abort.abort();
    this.#begin();
    await this.#sending;
  }

  #begin(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#sending ??= this.#drain();
  }

  async #drain(): Promise<void> {
    const { maxSize, maxWaitMs, send, clock } = this.#options;
    do {
      await this.#turn();
      const batch = this.#waiting.splice(0, maxSize);
      this.#inFlight = batch.length;
      if (batch.length > 0) await send(batch, this.#abort.signal);
      this.#inFlight = 0;
    } while (this.#waiting.length >= (this.#abort.signal.aborted ? 1 : maxSize));
    this.#sending = undefined;
    if (this.#waiting.length > 0) this.#timer = clock.after(maxWaitMs, () => this.#begin());
  }

  /** Waits for its share; at the end nothing waits any more. */
  async #turn(): Promise<void> {
    const { throttle, clock } = this.#options;
    if (throttle === undefined) return;
    const now = clock.monotonic();
    this.#tokens = Math.min(throttle.burst, this.#tokens + ((now - this.#filledAt) / 1000) * throttle.qps);
    this.#filledAt = now;
    this.#tokens -= 1;
    if (this.#tokens >= 0) return;
    await pause(clock, (-this.#tokens / throttle.qps) * 1000, this.#abort.signal);
  }
}

/** Waits, at most until the signal is aborted. */
export function pause(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  return clock.sleep(ms, signal).catch((error: unknown) => {
    if (!signal.aborted) throw error;
  });
}
