import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BTree } from '../../src/collections/btree.ts';

const visit = (index: BTree<number>, from: string, limit = Infinity) => {
  const seen: [string, number][] = [];
  if (limit > 0) index.ascendFrom(from, (value, key) => seen.push([key, value]) < limit);
  return seen;
};

describe('BTree', () => {
  it('agrees with a sorted array while it grows and shrinks', () => {
    const key = fc.integer({ min: 0, max: 4000 }).map((number) => `k${number}`);
    fc.assert(
      fc.property(
        fc.array(fc.tuple(key, fc.boolean()), { maxLength: 6000, minLength: 1000 }),
        fc.array(key, { maxLength: 20 }),
        (operations, probes) => {
          const index = new BTree<number>();
          const model = new Map<string, number>();
          operations.forEach(([each, remove], at) => {
            if (remove) expect(index.delete(each)).toBe(model.delete(each));
            else {
              index.set(each, at);
              model.set(each, at);
            }
          });
          const sorted = [...model].sort(([a], [b]) => (a < b ? -1 : 1));
          expect(index.size).toBe(model.size);
          expect(visit(index, '')).toEqual(sorted);
          for (const probe of probes) {
            const rank = sorted.filter(([each]) => each < probe).length;
            expect(index.rank(probe)).toBe(rank);
            expect(visit(index, probe, 5)).toEqual(sorted.slice(rank, rank + 5));
          }
        },
      ),
      { numRuns: 15 },
    );
  });

  it('can be emptied and filled again', () => {
    const index = new BTree<number>();
    const keys = Array.from({ length: 10_000 }, (_, at) => `k${(at * 7919) % 10_000}`);
    for (let round = 0; round < 3; round += 1) {
      keys.forEach((key, at) => index.set(key, at));
      expect(index.size).toBe(10_000);
      expect(index.rank(undefined)).toBe(10_000);
      for (const key of keys) expect(index.delete(key)).toBe(true);
      expect(index.size).toBe(0);
      expect(visit(index, '')).toEqual([]);
      expect(index.delete('k1')).toBe(false);
    }
  });

  it('compares few keys per lookup, also after many deletions', () => {
    const index = new BTree<number>();
    const key = (at: number) => String(at).padStart(7, '0');
    for (let at = 0; at < 200_000; at += 1) index.set(key(at), at);
    for (let at = 0; at < 200_000; at += 1) if (at % 100 !== 0) index.delete(key(at));
    const before = index.steps;
    expect(visit(index, key(100_001), 10)).toHaveLength(10);
    expect(index.rank(key(150_000))).toBe(1500);
    expect(index.steps - before).toBeLessThan(80);
  });
});
