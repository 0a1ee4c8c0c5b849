import { DeadlineQueue } from '../../src/handler-chain/deadline-queue.ts';
import { beforeEach, describe, expect, it } from 'vitest';

/** A clock with the timers that were asked for. */
function clockOf() {
  let now = 0;
  let timers: { readonly at: number; readonly fire: () => void }[] = [];
  let asked = 0;
  return {
    clock: {
      now: () => now,
      monotonic: () => now,
      after(ms: number, fire: () => void) {
        asked += 1;
        const timer = { at: now + ms, fire };
        timers.push(timer);
        return { cancel: () => (timers = timers.filter((other) => other !== timer)) };
      },
      sleep: () => Promise.reject(new Error('nobody sleeps')),
    },
    asked: () => asked,
    advance(ms: number) {
      now += ms;
      const due = timers.filter(({ at }) => at <= now);
      timers = timers.filter(({ at }) => at > now);
      for (const { fire } of due) fire();
    },
  };
}

describe('deadlines', () => {
  let time: ReturnType<typeof clockOf>;
  let deadlines: DeadlineQueue;
  let passed: string[];
  const set = (name: string) => deadlines.set(() => passed.push(name));
  beforeEach(() => {
    time = clockOf();
    deadlines = new DeadlineQueue(time.clock, 100);
    passed = [];
  });

  it('pass in the order in which they were set, each when its time is over', () => {
    set('a');
    time.advance(30);
    set('b');
    time.advance(69);
    expect(passed).toEqual([]);
    time.advance(1);
    expect(passed).toEqual(['a']);
    time.advance(29);
    expect(passed).toEqual(['a']);
    time.advance(1);
    expect(passed).toEqual(['a', 'b']);
    time.advance(1000);
    expect(passed).toEqual(['a', 'b']);
  });

  it('do not pass once they are called off, wherever they stand', () => {
    const timers = ['a', 'b', 'c', 'd'].map(set);
    for (const at of [1, 0, 3]) timers[at]?.cancel();
    timers[1]?.cancel();
    set('e');
    time.advance(100);
    expect(passed).toEqual(['c', 'e']);
    timers[2]?.cancel();
    set('f');
    time.advance(100);
    expect(passed).toEqual(['c', 'e', 'f']);
  });

  it('need one timer however many are set and called off in its time', () => {
    for (let n = 0; n < 1000; n++) set(String(n)).cancel();
    expect(time.asked()).toBe(1);
    time.advance(100);
    expect(passed).toEqual([]);
    set('later');
    expect(time.asked()).toBe(2);
    time.advance(100);
    expect(passed).toEqual(['later']);
  });

  it('may be set by one that passes', () => {
    deadlines.set(() => set('second'));
    time.advance(100);
    expect(passed).toEqual([]);
    time.advance(100);
    expect(passed).toEqual(['second']);
  });
});
