import { FakeClock } from '@oarlock/testing/fake-clock';
import { describe, expect, it } from 'vitest';

describe('FakeClock', () => {
  it('fires timers by time, then by order of setting, including timers set meanwhile', async () => {
    const clock = new FakeClock({ start: 0 });
    const log: string[] = [];
    clock.after(20, () => log.push(`b${clock.now()}`));
    clock.after(10, () => {
      log.push(`a${clock.now()}`);
      clock.after(5, () => log.push(`n${clock.now()}`));
    });
    clock.after(20, () => log.push(`c${clock.now()}`));
    clock.after(21, () => log.push('late'));
    const cancelled = clock.after(1, () => log.push('never'));
    cancelled.cancel();
    cancelled.cancel();
    await clock.advance(20);
    expect(log).toEqual(['a10', 'n15', 'b20', 'c20']);
    expect(clock.now()).toBe(20);
    expect(clock.monotonic()).toBe(20);
    expect(clock.pending).toBe(1);
  });

  it('lets the work of a timer settle before the next timer fires', async () => {
    const clock = new FakeClock();
    const log: string[] = [];
    void (async () => {
      await clock.sleep(1);
      for (let i = 0; i < 20; i += 1)
        await new Promise<void>((resolve) => {
          setImmediate(resolve);
        });
      log.push('settled');
    })();
    clock.after(2, () => log.push('next'));
    await clock.advance(2);
    expect(log).toEqual(['settled', 'next']);
  });

  it('does not wait for other code that always has an immediate pending', async () => {
    const clock = new FakeClock();
    let running = true;
    const again = () => {
      if (running) setImmediate(again);
    };
    again();
    await clock.settle();
    running = false;
  });

  it('sleeps until the signal aborts', async () => {
    const clock = new FakeClock();
    const abort = new AbortController();
    const sleep = clock.sleep(1000, abort.signal);
    abort.abort(new Error('enough'));
    await expect(sleep).rejects.toThrow('enough');
    expect(clock.pending).toBe(0);
  });

  it('runs until a condition holds, and fails if it cannot hold', async () => {
    const clock = new FakeClock({ start: 0 });
    let ticks = 0;
    const tick = () => {
      ticks += 1;
      clock.after(1000, tick);
    };
    tick();
    await clock.runUntil(() => ticks === 5);
    expect(clock.now()).toBe(4000);
    await expect(clock.runUntil(() => false, { within: 3000, what: 'the moon' })).rejects.toThrow(
      'the moon: the condition did not hold within 3000 ms',
    );
    await expect(new FakeClock().runUntil(() => false)).rejects.toThrow('no timer is set');
  });
});
