import { describe, expect, it } from 'vitest';
import { EventRingMemory } from '../../../src/watch-cache/internal/event-ring-memory.ts';
import { EventRing } from '../../../src/watch-cache/internal/event-ring.ts';
import { Codec, Item } from '../../../src/watch-cache/item.ts';
import { WatchCacheEvent } from '../../../src/watch-cache/watch-cache-event.ts';
import { eventOverheadBytes } from '../../../src/watch-cache/watch-cache-limits.ts';

const codec = new Codec('v1', 'ConfigMap');
const event = (revision: number, replacedBytes = 0) => {
  const key = `k${revision}`;
  const value = Buffer.alloc(replacedBytes);
  const previous = replacedBytes === 0 ? undefined : new Item({ codec, key, object: {}, value, revision: revision - 1 });
  return new WatchCacheEvent({ key, revision, current: undefined, previous, spanContext: undefined });
};
const revisions = (ring: EventRing, after: number) => ring.after(after).map(({ revision }) => revision);

describe('EventRing', () => {
  it('returns all events after its oldest revision', () => {
    const ring = new EventRing(10);
    for (const revision of [11, 13, 17]) ring.push(event(revision), 0);
    expect(ring.oldestRevision).toBe(10);
    expect(revisions(ring, 10)).toEqual([11, 13, 17]);
    expect(revisions(ring, 12)).toEqual([13, 17]);
    expect(revisions(ring, 17)).toEqual([]);
  });

  it('drops the oldest events at its maximum number and advances its oldest revision', () => {
    const ring = new EventRing(0, { maxEvents: 100 });
    for (let revision = 1; revision <= 250; revision++) ring.push(event(revision), 0);
    expect(ring.length).toBe(100);
    expect(ring.oldestRevision).toBe(150);
    expect(revisions(ring, 150)).toHaveLength(100);
    expect(revisions(ring, 248)).toEqual([249, 250]);
    expect(ring.bytes).toBe(100 * eventOverheadBytes);
  });

  it('drops the oldest events at its maximum size', () => {
    const ring = new EventRing(0, { maxBytes: 10_000 + 10 * eventOverheadBytes });
    for (let revision = 1; revision <= 25; revision++) {
      ring.push(event(revision, 1_000), 0);
      expect(ring.bytes).toBeLessThanOrEqual(10_000 + 10 * eventOverheadBytes);
    }
    expect(ring.oldestRevision).toBe(15);
    expect(revisions(ring, 15)).toEqual([16, 17, 18, 19, 20, 21, 22, 23, 24, 25]);
  });

  it('keeps no event that exceeds its maximum size alone', () => {
    const ring = new EventRing(0, { maxBytes: 1_000 });
    ring.push(event(1), 0);
    ring.push(event(2, 2_000), 0);
    expect([ring.length, ring.bytes, ring.oldestRevision]).toEqual([0, 0, 2]);
    ring.push(event(3), 0);
    expect(revisions(ring, 2)).toEqual([3]);
  });

  it('does not grow for events that are older than the fresh duration', () => {
    const ring = new EventRing(0);
    for (let revision = 1; revision <= 1_000; revision++) ring.push(event(revision), revision * 10_000);
    expect(ring.length).toBe(64);
  });

  it('drops stale events', () => {
    const ring = new EventRing(0);
    ring.push(event(1, 500), 0);
    ring.push(event(2), 200_000);
    ring.trim(400_000);
    expect(revisions(ring, 1)).toEqual([2]);
    expect(ring.oldestRevision).toBe(1);
    expect(ring.bytes).toBe(eventOverheadBytes);
  });

  it('returns all events of one revision', () => {
    const ring = new EventRing(0);
    for (const revision of [1, 2, 2, 2, 3]) ring.push(event(revision), 0);
    expect(revisions(ring, 1)).toEqual([2, 2, 2, 3]);
  });
});

describe('EventRingMemory', () => {
  const size = 1_000 + eventOverheadBytes;

  it('makes the largest ring drop its oldest events', () => {
    const memory = new EventRingMemory(10 * size);
    const [large, small] = [new EventRing(0, { memory }), new EventRing(0, { memory })];
    for (let revision = 1; revision <= 8; revision++) large.push(event(revision, 1_000), 0);
    for (let revision = 9; revision <= 12; revision++) small.push(event(revision, 1_000), 0);
    expect(memory.bytes).toBe(10 * size);
    expect([large.length, small.length]).toEqual([6, 4]);
    expect(large.oldestRevision).toBe(2);
    expect(small.oldestRevision).toBe(0);
  });

  it('frees the bytes of rings that are reset or closed', () => {
    const memory = new EventRingMemory(10 * size);
    const [first, second] = [new EventRing(0, { memory }), new EventRing(0, { memory })];
    first.push(event(1, 1_000), 0);
    second.push(event(2, 1_000), 0);
    first.reset(5);
    expect(memory.bytes).toBe(size);
    second.close();
    expect(memory.bytes).toBe(0);
  });
});
