import type { Clock, Timer } from '@oarlock/primitives/clock';

/** The default limit of the buffered events, in characters of JSON. 10,000 events of the maximum length would take 1 GB. */
export const defaultMaxBufferedLength = 64 * 1024 * 1024;

export interface BufferedBackendOptions {
  /** The maximum number of buffered events. Events beyond the limit are dropped. */
  readonly bufferSize: number;
  /** The maximum length of all buffered events, in characters of JSON. Events beyond the limit are dropped. */
  readonly maxBufferedLength?: number;
  readonly maxSize: number;
  /** How long the first event of a batch waits for further events. */
  readonly maxWaitMs: number;
  /** The rate limit in batches per second, and the burst; undefined for no limit. */
  readonly throttle?: { readonly qps: number; readonly burst: number } | undefined;
  readonly clock: Clock;
  /** Sends a batch. Never rejects. If `signal` aborts, a failed attempt is not repeated. */
  send(batch: readonly string[], signal: AbortSignal): Promise<void>;
}

/**
 * Collects events into batches (plugin/buffered upstream). A batch is sent when it is full or its first event is old enough. Batches are sent one
 * at a time.
 */
export class BufferedBackend {
  readonly #options: BufferedBackendOptions;
  #waiting: string[] = [];
  #inFlight = 0;
  #length = 0;
  #timer: Timer | undefined;
  #sending: Promise<void> | undefined;
  readonly #abort = new AbortController();
  #tokens: number;
  #filledAt: number;

  constructor(options: BufferedBackendOptions) {
    this.#options = options;
    this.#tokens = options.throttle?.burst ?? 0;
    this.#filledAt = options.clock.monotonic();
  }

  /** Adds an event to the buffer. Returns false if the buffer is full. */
  add(line: string): boolean {
    const { bufferSize, maxBufferedLength = defaultMaxBufferedLength, maxSize, maxWaitMs, clock } = this.#options;
    if (this.#abort.signal.aborted || this.#waiting.length + this.#inFlight >= bufferSize) return false;
    if (this.#length + line.length > maxBufferedLength) return false;
    this.#waiting.push(line);
    this.#length += line.length;
    if (this.#sending !== undefined) return true;
    if (this.#waiting.length >= maxSize) this.#begin();
    else this.#timer ??= clock.after(maxWaitMs, () => this.#begin());
    return true;
  }

  /** Stops the backend after sending the buffered events without further delay. */
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
      for (const { length } of batch) this.#length -= length;
    } while (this.#waiting.length >= (this.#abort.signal.aborted ? 1 : maxSize));
    this.#sending = undefined;
    if (this.#waiting.length > 0) this.#timer = clock.after(maxWaitMs, () => this.#begin());
  }

  /** Waits for the rate limiter. Does not wait during shutdown. */
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

/** Resolves when the time has passed or the signal aborts. */
export function pause(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  return clock.sleep(ms, signal).catch((error: unknown) => {
    if (!signal.aborted) throw error;
  });
}
