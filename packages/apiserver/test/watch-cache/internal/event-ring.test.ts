import { describe, expect, it } from 'vitest';
import { EventRing } from '../../../src/watch-cache/internal/event-ring.ts';
import { WatchCacheEvent } from '../../../src/watch-cache/item.ts';

const event = (revision: number) => new WatchCacheEvent(`k${revision}`, revision, undefined, undefined, undefined);
const revisions = (ring: EventRing, after: number) => ring.after(after).map(({ revision }) => revision);

describe('EventRing', () => {
  it('holds everything after its floor', () => {
    const ring = new EventRing(10);
    for (const revision of [11, 13, 17]) ring.push(event(revision), 0);
    expect(ring.oldestRevision).toBe(10);
    expect(revisions(ring, 10)).toEqual([11, 13, 17]);
    expect(revisions(ring, 12)).toEqual([13, 17]);
    expect(revisions(ring, 17)).toEqual([]);
  });

  it('forgets the oldest when it is full, and says so in its floor', () => {
    const ring = new EventRing(0, 100);
    for (let revision = 1; revision <= 250; revision++) ring.push(event(revision), 0);
    expect(ring.length).toBe(100);
    expect(ring.oldestRevision).toBe(150);
    expect(revisions(ring, 150)).toHaveLength(100);
    expect(revisions(ring, 248)).toEqual([249, 250]);
  });

  it('does not grow for events that had their time', () => {
    const ring = new EventRing(0);
    for (let revision = 1; revision <= 1_000; revision++) ring.push(event(revision), revision * 10_000);
    expect(ring.length).toBe(64);
  });

  it('forgets what is too old for anybody to come back for', () => {
    const ring = new EventRing(0);
    ring.push(event(1), 0);
    ring.push(event(2), 200_000);
    ring.trim(400_000);
    expect(revisions(ring, 1)).toEqual([2]);
    expect(ring.oldestRevision).toBe(1);
  });

  it('keeps events of one revision apart from those before', () => {
    const ring = new EventRing(0);
    for (const revision of [1, 2, 2, 2, 3]) ring.push(event(revision), 0);
    expect(revisions(ring, 1)).toEqual([2, 2, 2, 3]);
  });
});
