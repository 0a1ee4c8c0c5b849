import { DeadlineQueue } from '../../src/handler-chain/deadline-queue.ts';
import { beforeEach, describe, expect, it } from 'vitest';

/** A clock that counts its timers. */
function clockOf() {
  let now = 0;
  let timers: { readonly at: number; readonly fire: () => void }[] = [];
  let timerCount = 0;
  return {
    clock: {
      now: () => now,
      monotonic: () => now,
      after(ms: number, fire: () => void) {
        timerCount += 1;
        const timer = { at: now + ms, fire };
        timers.push(timer);
        return { cancel: () => (timers = timers.filter((other) => other !== timer)) };
      },
      sleep: () => Promise.reject(new Error('the queue does not sleep')),
    },
    timerCount: () => timerCount,
    advance(ms: number) {
      now += ms;
      const due = timers.filter(({ at }) => at <= now);
      timers = timers.filter(({ at }) => at > now);
      for (const { fire } of due) fire();
    },
  };
}

describe('a deadline', () => {
  let time: ReturnType<typeof clockOf>;
  let deadlines: DeadlineQueue;
  let expired: string[];
  const set = (name: string) => deadlines.set(() => expired.push(name));
  beforeEach(() => {
    time = clockOf();
    deadlines = new DeadlineQueue(time.clock, 100);
    expired = [];
  });

  it('expires after its duration, in the order of setting', () => {
    set('a');
    time.advance(30);
    set('b');
    time.advance(69);
    expect(expired).toEqual([]);
    time.advance(1);
    expect(expired).toEqual(['a']);
    time.advance(29);
    expect(expired).toEqual(['a']);
    time.advance(1);
    expect(expired).toEqual(['a', 'b']);
    time.advance(1000);
    expect(expired).toEqual(['a', 'b']);
  });

  it('does not expire if it is cancelled, at any position', () => {
    const timers = ['a', 'b', 'c', 'd'].map(set);
    for (const at of [1, 0, 3]) timers[at]?.cancel();
    timers[1]?.cancel();
    set('e');
    time.advance(100);
    expect(expired).toEqual(['c', 'e']);
    timers[2]?.cancel();
    set('f');
    time.advance(100);
    expect(expired).toEqual(['c', 'e', 'f']);
  });

  it('shares one timer with all others', () => {
    for (let n = 0; n < 1000; n++) set(String(n)).cancel();
    expect(time.timerCount()).toBe(1);
    time.advance(100);
    expect(expired).toEqual([]);
    set('later');
    expect(time.timerCount()).toBe(2);
    time.advance(100);
    expect(expired).toEqual(['later']);
  });

  it('may be set while another one expires', () => {
    deadlines.set(() => set('second'));
    time.advance(100);
    expect(expired).toEqual([]);
    time.advance(100);
    expect(expired).toEqual(['second']);
  });
});
