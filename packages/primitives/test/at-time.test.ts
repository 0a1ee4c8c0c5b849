import { atTime } from '@oarlock/primitives/at-time';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { describe, expect, it } from 'vitest';

const hourMs = 3_600_000;

describe('atTime', () => {
  it('fires once at its time, also after several checks', async () => {
    const clock = new FakeClock();
    let fired = 0;
    atTime(clock, clock.now() + 2.5 * hourMs, () => (fired += 1));
    await clock.advance(2.5 * hourMs - 1);
    expect(fired).toBe(0);
    await clock.advance(1);
    expect(fired).toBe(1);
    await clock.advance(10 * hourMs);
    expect(fired).toBe(1);
  });

  it('notices within an hour that the clock was set', async () => {
    const clock = new FakeClock();
    let offset = 0;
    let fired = 0;
    const settable = { now: () => clock.now() + offset, after: clock.after.bind(clock) };
    atTime(settable, clock.now() + 1000 * hourMs, () => (fired += 1));
    offset = 1000 * hourMs;
    await clock.advance(hourMs);
    expect(fired).toBe(1);
  });

  it('does not fire after it was canceled', async () => {
    const clock = new FakeClock();
    let fired = 0;
    const timer = atTime(clock, clock.now() + 2 * hourMs, () => (fired += 1));
    await clock.advance(1.5 * hourMs);
    timer.cancel();
    await clock.advance(hourMs);
    expect([fired, clock.pending]).toEqual([0, 0]);
  });
});
