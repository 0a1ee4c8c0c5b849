export interface Timer {
  cancel(): void;
}

/** Time as a dependency (k8s.io/utils/clock), so that a test can run a cluster on a simulated clock. */
export interface Clock {
  /** Milliseconds since the Unix epoch. May jump forward and backward. */
  now(): number;
  /** Milliseconds since an arbitrary point, with fractions; never decreases. For durations. */
  monotonic(): number;
  /** Calls `fire` once, after at least `ms` milliseconds. A pending timer does not keep the process alive. */
  after(ms: number, fire: () => void): Timer;
  /** Resolves after `ms` milliseconds; rejects with the signal's reason if the signal aborts first. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

// a 32-bit integer: setTimeout fires immediately for a longer delay, so longer timers are armed in steps
const maxTimeoutMs = 2 ** 31 - 1;

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after(ms, fire) {
    let left = Math.max(0, ms);
    let handle: NodeJS.Timeout;
    const arm = () => {
      const step = Math.min(left, maxTimeoutMs);
      left -= step;
      handle = setTimeout(() => (left > 0 ? arm() : fire()), step);
      handle.unref();
    };
    arm();
    return { cancel: () => clearTimeout(handle) };
  },
  sleep(ms, signal) {
    return sleepWith(this, ms, signal);
  },
};

/** Implements `Clock.sleep` with `Clock.after`, for implementations of `Clock`. */
export function sleepWith(clock: Pick<Clock, 'after'>, ms: number, signal?: AbortSignal): Promise<void> {
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
