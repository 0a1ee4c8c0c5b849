import { MemorySpanStore } from '@oarlock/tracing/memory-span-store';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { span } from './support/spans.ts';

describe('span store', () => {
  it('finds spans by trace and by object, oldest first', () => {
    const store = new MemorySpanStore(100);
    const late = span('late', { start: 20, attributes: { 'oarlock.object': 'pods/d/a' } });
    const early = span('early', { start: 10, attributes: { 'oarlock.object': 'pods/d/a' } });
    const other = span('other', { traceId: 'f'.repeat(32), attributes: { 'oarlock.object': 'pods/d/b' } });
    store.add([late, other, early]);
    expect(store.trace(early.traceId)).toEqual([early, late]);
    expect(store.forObject('pods/d/a')).toEqual([early, late]);
    expect(store.forObject('pods/d/b')).toEqual([other]);
    expect(store.forObject('pods/d/c')).toEqual([]);
    expect(store.trace('0'.repeat(32))).toEqual([]);
  });

  it('maps the keys of pod workers and of the scheduler to pods, and reconcile keys to their resource', () => {
    const store = new MemorySpanStore(100);
    const sync = span('sync', { name: 'sync pod', attributes: { 'oarlock.key': 'd/a' } });
    const cycle = span('cycle', { name: 'schedule', start: 1, attributes: { 'oarlock.key': 'd/a' } });
    store.add([sync, cycle, span('loop', { name: 'reconcile deployment', attributes: { 'oarlock.key': 'd/a' } })]);
    expect(store.forObject('pods/d/a')).toEqual([sync, cycle]);
  });

  it('keeps the latest spans and evicts the oldest completely', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 20 }),
        fc.array(fc.tuple(fc.integer({ min: 0, max: 4 }), fc.option(fc.integer({ min: 0, max: 3 }))), { maxLength: 100 }),
        fc.integer({ min: 1, max: 7 }),
        (capacity, sketches, batch) => {
          const store = new MemorySpanStore(capacity);
          const all = sketches.map(([trace, object], index) =>
            span(`s${index}`, {
              traceId: String(trace).repeat(32),
              start: index,
              attributes: object === null ? {} : { 'oarlock.object': `pods/d/${object}` },
            }),
          );
          for (let at = 0; at < all.length; at += batch) store.add(all.slice(at, at + batch));
          const kept = all.slice(-capacity);
          expect(store.size).toBe(kept.length);
          for (const trace of [0, 1, 2, 3, 4])
            expect(store.trace(String(trace).repeat(32))).toEqual(kept.filter(({ traceId }) => traceId.startsWith(String(trace))));
          for (const object of [0, 1, 2, 3])
            expect(store.forObject(`pods/d/${object}`)).toEqual(
              kept.filter(({ attributes }) => attributes['oarlock.object'] === `pods/d/${object}`),
            );
        },
      ),
      { numRuns: 200 },
    );
  });
});
