import { describe, expect, it } from 'vitest';
import { BoundedEventBroadcaster, BoundedEventQueue } from '../../src/collections/bounded-event-queue.ts';

type Item = number | 'resync';
const options = { limit: 3, overflow: 'resync' } as const;

async function collect(queue: AsyncIterable<Item>): Promise<Item[]> {
  const items: Item[] = [];
  for await (const item of queue) items.push(item);
  return items;
}

describe('BoundedEventQueue', () => {
  it('yields items in order and ends after the unread ones', async () => {
    const queue = new BoundedEventQueue<Item>(options);
    for (const item of [1, 2, 3]) queue.push(item);
    queue.end();
    queue.push(4);
    expect(await collect(queue)).toEqual([1, 2, 3]);
  });

  it('replaces all unread items by the overflow item when there are too many', async () => {
    const queue = new BoundedEventQueue<Item>(options);
    for (const item of [1, 2, 3, 4, 5]) queue.push(item);
    queue.end();
    expect(await collect(queue)).toEqual(['resync', 5]);
  });

  it('drops the items before a pushed overflow item', async () => {
    const queue = new BoundedEventQueue<Item>(options);
    for (const item of [1, 'resync', 2] as const) queue.push(item);
    queue.end();
    expect(await collect(queue)).toEqual(['resync', 2]);
  });

  it('wakes a waiting reader, and throws the failure it ends with', async () => {
    const queue = new BoundedEventQueue<Item>(options);
    const items = queue[Symbol.asyncIterator]();
    const waiting = items.next();
    queue.push(1);
    expect(await waiting).toEqual({ done: false, value: 1 });
    const last = items.next();
    queue.end(new Error('lost'));
    await expect(last).rejects.toThrow('lost');
  });
});

describe('BoundedEventBroadcaster', () => {
  it('delivers items to every reader, each at its own pace', async () => {
    const broadcaster = new BoundedEventBroadcaster<Item>(options);
    const stop = new AbortController();
    const [fast, slow] = [broadcaster.read(stop.signal, ['resync']), broadcaster.read(stop.signal, ['resync'])];
    expect([(await fast.next()).value, (await slow.next()).value]).toEqual(['resync', 'resync']);
    for (const item of [1, 2, 3]) {
      broadcaster.push(item);
      expect((await fast.next()).value).toBe(item);
    }
    broadcaster.push(4);
    expect((await slow.next()).value).toBe('resync');
    expect((await fast.next()).value).toBe(4);
    stop.abort();
    expect([(await fast.next()).done, (await slow.next()).done]).toEqual([true, true]);
  });

  it('ends a reader that waits when its signal aborts', async () => {
    const stop = new AbortController();
    const waiting = new BoundedEventBroadcaster<Item>(options).read(stop.signal).next();
    stop.abort();
    expect((await waiting).done).toBe(true);
  });

  it('ends present and future readers with a failure', async () => {
    const broadcaster = new BoundedEventBroadcaster<Item>(options);
    const { signal } = new AbortController();
    const waiting = broadcaster.read(signal).next();
    broadcaster.end(new Error('unsupported'));
    await expect(waiting).rejects.toThrow('unsupported');
    await expect(broadcaster.read(signal).next()).rejects.toThrow('unsupported');
  });
});
