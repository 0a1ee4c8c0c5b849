import type { Clock, Timer } from '@oarlock/primitives/clock';

/**
 * Ends a streaming session that has transferred nothing for a time (upstream's streamingConnectionIdleTimeout). Activity only stores the
 * time: it is reported for each message of a session.
 */
export class IdleTimeout {
  readonly #clock: Clock;
  readonly #timeoutMs: number;
  readonly #expire: () => void;
  #lastActivity: number;
  #timer: Timer | undefined;

  /** @param timeoutMs in milliseconds; with 0 the session has no timeout */
  constructor({ clock, timeoutMs }: { readonly clock: Clock; readonly timeoutMs: number }, expire: () => void) {
    this.#clock = clock;
    this.#timeoutMs = timeoutMs;
    this.#expire = expire;
    this.#lastActivity = clock.monotonic();
    if (timeoutMs > 0) this.#wait(timeoutMs);
  }

  /** Starts the time again. */
  readonly active = (): void => {
    this.#lastActivity = this.#clock.monotonic();
  };

  cancel(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #wait(ms: number): void {
    this.#timer = this.#clock.after(ms, () => {
      const left = this.#lastActivity + this.#timeoutMs - this.#clock.monotonic();
      if (left > 0) this.#wait(left);
      else this.#expire();
    });
  }
}
