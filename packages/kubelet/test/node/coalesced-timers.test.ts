import { FakeClock } from '@oarlock/testing/fake-clock';
import { describe, expect, it } from 'vitest';
import { CoalescedTimers } from '../../src/node/coalesced-timers.ts';

describe('CoalescedTimers', () => {
  it('fires timers of one tick together and keeps periodic timers together', async () => {
    const clock = new FakeClock();
    const ticks = new CoalescedTimers(clock, 100);
    const began = clock.monotonic();
    const fired: (readonly [string, number])[] = [];
    const every = (name: string, ms: number) => {
      ticks.after(ms, () => {
        fired.push([name, clock.monotonic() - began]);
        every(name, 1000);
      });
    };
    every('a', 960);
    every('b', 1040);
    await clock.advance(2150);
    expect(fired.map(([name]) => name)).toEqual(['a', 'b', 'a', 'b']);
    expect(fired[0]?.[1]).toBe(fired[1]?.[1]);
    expect(fired[2]?.[1]).toBe(fired[3]?.[1]);
    expect((fired[2]?.[1] ?? 0) - (fired[0]?.[1] ?? 0)).toBe(1000);
  });

  it('drops only cancelled timers', async () => {
    const clock = new FakeClock();
    const ticks = new CoalescedTimers(clock, 100);
    let [a, b] = [0, 0];
    const timer = ticks.after(100, () => a++);
    ticks.after(100, () => b++);
    timer.cancel();
    await clock.advance(500);
    timer.cancel();
    expect([a, b]).toEqual([0, 1]);
  });

  it('does not fire at the current tick', async () => {
    const clock = new FakeClock();
    let fired = false;
    new CoalescedTimers(clock, 100).after(0, () => {
      fired = true;
    });
    expect(fired).toBe(false);
    await clock.advance(100);
    expect(fired).toBe(true);
  });
});
