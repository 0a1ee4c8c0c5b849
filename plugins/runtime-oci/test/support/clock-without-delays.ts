import type { Clock } from '@oarlock/primitives/clock';

/** Returns a clock whose timers are those of another clock, and whose delays end at once: attempts follow each other without a wait. */
export const clockWithoutDelays = (time: Clock): Clock => ({
  now: () => time.now(),
  monotonic: () => time.monotonic(),
  after: (ms, fire) => time.after(ms, fire),
  sleep: () => Promise.resolve(),
});
