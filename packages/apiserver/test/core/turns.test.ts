import { expect, it } from 'vitest';
import { systemClock } from '@oarlock/kernel/clock';
import { silentLogger } from '@oarlock/kernel/logger';
import { MemoryStorage } from '@oarlock/storage-memory/memory-storage';
import { configMaps } from '@oarlock/api/resources';
import { Pipeline } from '../../src/pipeline.ts';
import { apiHandler } from '../../src/api-handler.ts';
import { Turns } from '../../src/turns.ts';
import { admin, allowAll, configMap, facts, TestClock, testKeys } from './fixture.ts';

it('lets requests pass until the loop was held for a while, then makes them wait for their turn', async () => {
  const clock = new TestClock();
  const turns = new Turns(clock);
  expect(turns.pause()).toBeUndefined();
  expect(turns.pause()).toBeUndefined();
  const immediate = new Promise((resolve) => {
    setImmediate(resolve);
  });
  Object.defineProperty(clock, 'monotonic', { value: () => 6 });
  const order: number[] = [];
  const waits = Array.from({ length: 40 }, (_, i) =>
    turns.pause()?.then(() => {
      order.push(i);
    }),
  );
  expect(waits.every((wait) => wait !== undefined)).toBe(true);
  await immediate;
  expect(order).toEqual(Array.from({ length: 16 }, (_, i) => i));
  await Promise.all(waits);
  expect(order).toEqual(Array.from({ length: 40 }, (_, i) => i));
});

it('keeps the event loop turning while clients in this process write in a loop', async () => {
  const pipeline = new Pipeline({
    storage: new MemoryStorage(),
    authz: [allowAll],
    admission: [],
    facts,
    keys: testKeys(),
    clock: systemClock,
    log: silentLogger,
  });
  await pipeline.start();
  const handler = apiHandler(pipeline, () => Promise.reject(new Error('no paths')));
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
  // without turns there would be one at most
  expect(turns).toBeGreaterThan(10);
});
