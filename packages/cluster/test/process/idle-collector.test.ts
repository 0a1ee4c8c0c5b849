import type { EventLoopUtilization } from 'node:perf_hooks';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { beforeEach, expect, it } from 'vitest';
import { IdleCollector } from '../../src/process/idle-collector.ts';

const MiB = 1024 * 1024;
const periodMs = 15_000;

let clock: FakeClock;
let busy: number;
let heap: { heapUsed: number; heapTotal: number };
let collections: number;
let collector: IdleCollector;
beforeEach(() => {
  clock = new FakeClock();
  busy = 0.01;
  heap = { heapUsed: 40 * MiB, heapTotal: 70 * MiB };
  collections = 0;
  collector = new IdleCollector({
    clock,
    utilization: (from): EventLoopUtilization => ({ idle: 0, active: 0, utilization: from === undefined ? 1 : busy }),
    heap: () => heap,
    collect: () => (collections += 1),
  });
  collector.start();
});

it('collects what the start left behind, once', async () => {
  await clock.advance(periodMs - 1);
  expect(collections).toBe(0);
  await clock.advance(1);
  expect(collections).toBe(1);
  heap = { heapUsed: 38 * MiB, heapTotal: 42 * MiB };
  await clock.advance(20 * periodMs);
  expect(collections).toBe(1);
});

it('collects again after the heap has grown', async () => {
  await clock.advance(periodMs);
  heap = { heapUsed: 38 * MiB, heapTotal: 42 * MiB };
  await clock.advance(periodMs);
  heap = { heapUsed: 45 * MiB, heapTotal: 54 * MiB };
  await clock.advance(periodMs);
  expect(collections).toBe(2);
});

it('waits while the process is busy', async () => {
  busy = 0.05;
  await clock.advance(10 * periodMs);
  expect(collections).toBe(0);
  busy = 0.02;
  await clock.advance(periodMs);
  expect(collections).toBe(1);
});

it('leaves a heap alone whose collection would stop the event loop for long', async () => {
  heap = { heapUsed: 97 * MiB, heapTotal: 200 * MiB };
  await clock.advance(10 * periodMs);
  expect(collections).toBe(0);
});

it('ends when it is stopped', async () => {
  collector.stop();
  await clock.advance(10 * periodMs);
  expect(collections).toBe(0);
});

it('frees memory of this process by the function of V8', async () => {
  const garbage = new WeakRef(Array.from({ length: 1000 }, (_, index) => ({ index })));
  const own = new IdleCollector({ clock, utilization: () => ({ idle: 0, active: 0, utilization: 0 }), heap: () => heap });
  own.start();
  // a WeakRef keeps its target until the turn of the event loop has ended
  await new Promise((resolve) => setImmediate(resolve));
  await clock.advance(periodMs);
  own.stop();
  expect(garbage.deref()).toBeUndefined();
  expect('gc' in globalThis).toBe(false);
});
