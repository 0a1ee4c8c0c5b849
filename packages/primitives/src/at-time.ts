import type { Clock, Timer } from './clock.ts';

/** The longest wait between two looks at the clock, in milliseconds. */
const checkMs = 3_600_000;

/**
 * Calls `fire` once, when `clock.now()` has reached `time` (milliseconds since the Unix epoch). Reads the clock at least once per hour: timers do not
 * follow a clock that is set, and do not count the time in which a machine is suspended.
 */
export function atTime(clock: Pick<Clock, 'now' | 'after'>, time: number, fire: () => void): Timer {
  let timer: Timer;
  const arm = () => {
    const left = time - clock.now();
    timer = clock.after(Math.min(Math.max(0, left), checkMs), () => (clock.now() >= time ? fire() : arm()));
  };
  arm();
  return { cancel: () => timer.cancel() };
}
