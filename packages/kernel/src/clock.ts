export interface Timer {
  cancel(): void;
}

/** Time, passed in, so that a test can run a cluster on a simulated clock. */
export interface Clock {
  /** Milliseconds since the Unix epoch. May jump. */
  now(): number;
  /** Milliseconds from an arbitrary point, never backwards, with fractions. For durations. */
  monotonic(): number;
  /** Calls `fire` once, after at least `ms` milliseconds. A pending timer does not keep the process alive. */
  after(ms: number, fire: () => void): Timer;
  /** Resolves after `ms`; rejects with the signal's reason when it aborts first. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

// setTimeout fires at once for anything longer
const longest = 2 ** 31 - 1;

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after(ms, fire) {
    let left = Math.max(0, ms);
    let handle: NodeJS.Timeout;
    const arm = () => {
      const step = Math.min(left, longest);
      left -= step;
      handle = setTimeout(() => (left > 0 ? arm() : fire()), step);
      handle.unref();
    };
    arm();
    return { cancel: () => clearTimeout(handle) };
  },
  sleep(ms, signal) {
    return sleepOn(this, ms, signal);
  },
};

/** `Clock.sleep` in terms of `Clock.after`, for whoever implements a clock. */
export function sleepOn(clock: Pick<Clock, 'after'>, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason);
      return;
    }
    const timer = clock.after(ms, () => {
      signal?.removeEventListener('abort', abort);
      resolve();
    });
    const abort = () => {
      timer.cancel();
      reject(signal?.reason);
    };
    signal?.addEventListener('abort', abort, { once: true });
  });
}
