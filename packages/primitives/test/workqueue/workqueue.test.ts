import { Workqueue, type SpanIdentity, type WorkItem } from '@oarlock/primitives/workqueue/workqueue';
import { FakeClock } from '@oarlock/testing/fake-clock';
import fc from 'fast-check';
import { beforeEach, describe, expect, it } from 'vitest';

const spanContext = (n: number): SpanIdentity => ({
  traceId: '0af7651916cd43dd8448eb211c80319c',
  spanId: n.toString(16).padStart(16, '0'),
});

describe('Workqueue', () => {
  let clock: FakeClock;
  let queue: Workqueue;
  beforeEach(() => {
    clock = new FakeClock({ start: 1000 });
    queue = new Workqueue({ clock });
  });
  const keyOf = async (next: Promise<WorkItem | undefined>) => (await next)?.key;

  it('returns each key once, in order, to the getter that waits longest', async () => {
    const first = queue.get();
    const second = queue.get();
    queue.add('a');
    queue.add('a');
    queue.add('b');
    queue.add('c');
    expect(await keyOf(first)).toBe('a');
    expect(await keyOf(second)).toBe('b');
    expect(queue.length).toBe(1);
    expect(await keyOf(queue.get())).toBe('c');
  });

  it('returns a key again if it was added while it was processed, and never to two workers', async () => {
    queue.add('a');
    await queue.get();
    queue.add('a');
    queue.add('a');
    let isReturned = false;
    const again = queue.get().then((work) => {
      isReturned = true;
      return work;
    });
    await clock.settle();
    expect(isReturned).toBe(false);
    queue.done('a');
    expect((await again)?.key).toBe('a');
    queue.done('a');
    expect(queue.length).toBe(0);
  });

  it('keeps the first span context, at most 32 more, each once, and the time of the first add', async () => {
    queue.add('a', spanContext(1));
    await clock.advance(50);
    queue.add('a', spanContext(1));
    for (let n = 2; n < 60; n += 1) queue.add('a', spanContext(n));
    const work = await queue.get();
    expect(work?.enqueuedAt).toBe(1000);
    expect(work?.spanContexts).toHaveLength(33);
    expect(work?.spanContexts[0]).toEqual(spanContext(1));
    queue.add('a', spanContext(99));
    queue.done('a');
    expect((await queue.get())?.spanContexts).toEqual([spanContext(99)]);
  });

  it('delays keys, keeps the earlier of two delays and merges their span contexts', async () => {
    queue.addAfter('a', 1000, spanContext(1));
    queue.addAfter('a', 200, spanContext(2));
    queue.addAfter('a', 500);
    queue.addAfter('b', 100);
    queue.addAfter('c', 150);
    queue.cancelDelayed('c');
    await clock.advance(150);
    expect(await keyOf(queue.get())).toBe('b');
    expect(queue.length).toBe(0);
    await clock.advance(50);
    expect((await queue.get())?.spanContexts).toEqual([spanContext(1), spanContext(2)]);
    queue.done('a');
    await clock.advance(10_000);
    expect(queue.length).toBe(0);
    expect(clock.pending).toBe(0);
  });

  it('doubles the delay with each failure up to 1000 s, and resets it on forget', () => {
    const delays = Array.from({ length: 20 }, () => queue.addRateLimited('a'));
    expect(delays.slice(0, 4)).toEqual([5, 10, 20, 40]);
    expect(delays.at(-1)).toBe(1_000_000);
    expect(queue.numRequeues('a')).toBe(20);
    queue.forget('a');
    expect(queue.addRateLimited('a')).toBe(5);
    expect(queue.addRateLimited('b')).toBe(5);
  });

  it('limits all retries together if configured', () => {
    const bounded = new Workqueue({ clock, overallLimit: { perSecond: 10, burst: 2 } });
    expect(['a', 'b', 'c', 'd'].map((key) => bounded.addRateLimited(key))).toEqual([5, 5, 100, 200]);
  });

  it('drains on shutdown: queued keys are returned, delayed and new keys are not', async () => {
    queue.add('a');
    queue.addAfter('b', 10);
    const drained = queue.shutDownWithDrain();
    let done = false;
    void drained.then(() => {
      done = true;
    });
    queue.add('c');
    expect(await keyOf(queue.get())).toBe('a');
    await clock.advance(100);
    expect(done).toBe(false);
    queue.done('a');
    await drained;
    expect(await queue.get()).toBeUndefined();
    expect(clock.pending).toBe(0);
  });

  it('notifies waiting workers on shutdown', async () => {
    const next = queue.get();
    queue.shutDown();
    expect(await next).toBeUndefined();
  });

  it('handles 100,000 keys without slowing down', async () => {
    for (let n = 0; n < 100_000; n += 1) queue.add(`k${n}`);
    const tenth = async () => {
      const began = process.cpuUsage();
      for (let n = 0; n < 10_000; n += 1) queue.done((await queue.get())?.key ?? '');
      const { user, system } = process.cpuUsage(began);
      return user + system;
    };
    const took: number[] = [];
    while (took.length < 10) took.push(await tenth());
    // a queue of 100,000 keys costs as much per key as a short one
    expect(Math.min(...took.slice(0, 3))).toBeLessThan(10 * Math.min(...took.slice(-3)));
    expect(queue.length).toBe(0);
  });

  it('never returns a key to two workers, and every add is followed by later work, for any order of calls', async () => {
    const step = fc.record({
      op: fc.constantFrom('add', 'after', 'take', 'done', 'advance'),
      key: fc.constantFrom('a', 'b', 'c'),
      ms: fc.integer({ min: 1, max: 50 }),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
        const time = new FakeClock();
        const q = new Workqueue({ clock: time });
        const working: string[] = [];
        const owed = new Set<string>();
        const take = async () => {
          const { key } = (await q.get())!;
          expect(working).not.toContain(key);
          owed.delete(key);
          working.push(key);
        };
        for (const { op, key, ms } of steps) {
          if (op === 'add') {
            q.add(key);
            owed.add(key);
          }
          if (op === 'after') {
            q.addAfter(key, ms);
            owed.add(key);
          }
          if (op === 'take' && q.length > 0) await take();
          if (op === 'done' && working.length > 0) q.done(working.shift()!);
          if (op === 'advance') await time.advance(ms);
        }
        await time.advance(1000);
        while (q.length > 0 || working.length > 0) {
          while (q.length > 0) await take();
          while (working.length > 0) q.done(working.shift()!);
        }
        expect([...owed]).toEqual([]);
      }),
      { numRuns: 100 },
    );
  });
});
