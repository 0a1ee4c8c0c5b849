import { ExpiringCache } from '@oarlock/primitives/collections/expiring-cache';
import { describe, expect, it } from 'vitest';

const open = (max = 2) => {
  let now = 1_000;
  const cache = new ExpiringCache<string, number>({ max, clock: { now: () => now } });
  return { cache, advance: (ms: number) => (now += ms) };
};

describe('ExpiringCache', () => {
  it('returns an entry until its time', () => {
    const { cache, advance } = open();
    cache.set('a', 1, 1_010);
    advance(9);
    expect(cache.get('a')).toBe(1);
    advance(1);
    expect(cache.get('a')).toBeUndefined();
  });

  it('replaces an entry, and drops it if the new time has passed', () => {
    const { cache } = open();
    cache.set('a', 1, 1_010);
    cache.set('a', 2, 1_010);
    expect(cache.get('a')).toBe(2);
    cache.set('a', 3, 1_000);
    expect(cache.get('a')).toBeUndefined();
  });

  it('keeps at most the maximum of entries, and those that were read', () => {
    const { cache } = open();
    cache.set('a', 1, 2_000);
    cache.set('b', 2, 2_000);
    cache.get('a');
    cache.set('c', 3, 2_000);
    expect(['a', 'b', 'c'].map((key) => cache.get(key))).toEqual([1, undefined, 3]);
  });
});
