import { eventLoop } from '@oarlock/primitives/concurrency/event-loop';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { systemClock } from '@oarlock/primitives/clock';
import { silentLogger } from '@oarlock/primitives/logger';
import { MemoryStorage } from '@oarlock/storage-memory/memory-storage';
import { configMaps } from '@oarlock/api/resources';
import { Pipeline } from '../../src/pipeline/pipeline.ts';
import { loopbackHandler } from '../../src/pipeline/loopback-handler.ts';
import { EventLoopYield } from '../../src/pipeline/event-loop-yield.ts';
import { admin, allowAll, configMap, facts, TestClock, testKeys } from '../support/pipeline-fixture.ts';

afterEach(() => void vi.restoreAllMocks());

// a server of an earlier test in this process may have left a caller that waits
describe.each([
  ['no caller', false, 16],
  ['a caller', true, 2],
])('while %s outside of the process waits', (_, hasWaiters, resumed) => {
  it('admits requests until the turn is over, then queues them', async () => {
    vi.spyOn(eventLoop, 'hasWaiters', 'get').mockReturnValue(hasWaiters);
    const clock = new TestClock();
    const turns = new EventLoopYield(clock);
    expect(turns.yieldIfDue()).toBeUndefined();
    expect(turns.yieldIfDue()).toBeUndefined();
    const immediate = new Promise((resolve) => {
      setImmediate(resolve);
    });
    Object.defineProperty(clock, 'monotonic', { value: () => 6 });
    const order: number[] = [];
    const waits = Array.from({ length: 40 }, (_unused, i) =>
      turns.yieldIfDue()?.then(() => {
        order.push(i);
      }),
    );
    expect(waits.every((wait) => wait !== undefined)).toBe(true);
    await immediate;
    expect(order).toEqual(Array.from({ length: resumed }, (_unused, i) => i));
    await Promise.all(waits);
    expect(order).toEqual(Array.from({ length: 40 }, (_unused, i) => i));
  });
});

it('keeps the event loop running while loopback clients write in a loop', async () => {
  const pipeline = new Pipeline({
    storage: new MemoryStorage(),
    authz: [allowAll],
    admission: [],
    clusterFacts: facts,
    clusterKeys: testKeys(),
    clock: systemClock,
    log: silentLogger,
  });
  await pipeline.start();
  const handler = loopbackHandler(pipeline, () => Promise.reject(new Error('no paths')));
  let turns = 0;
  let writing = true;
  const turned = () => {
    turns++;
    if (writing) setImmediate(turned);
  };
  setImmediate(turned);
  let next = 0;
  await Promise.all(
    Array.from({ length: 50 }, async () => {
      while (next < 3000) {
        await handler.handle({
          verb: 'create',
          resource: configMaps,
          subresource: '',
          namespace: 'default',
          name: '',
          query: {},
          identity: admin,
          body: configMap(`c${next++}`),
        });
      }
    }),
  );
  writing = false;
  await pipeline.stop();
  // without yielding there would be at most one turn
  expect(turns).toBeGreaterThan(10);
});
