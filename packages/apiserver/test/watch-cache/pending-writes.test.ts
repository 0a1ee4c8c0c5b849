import { describe, expect, it } from 'vitest';
import { Codec } from '../../src/watch-cache/item.ts';
import { PendingWrite, PendingWrites } from '../../src/watch-cache/pending-writes.ts';
import { eventOverheadBytes } from '../../src/watch-cache/watch-cache-limits.ts';

const codec = new Codec('v1', 'ConfigMap');
const write = (bytes: number) =>
  new PendingWrite({ codec, key: 'a', object: {}, value: Buffer.alloc(bytes, bytes % 256), spanContext: undefined });
const size = (bytes: number) => bytes + eventOverheadBytes;

describe('PendingWrites', () => {
  it('does not add a write beyond its bound', () => {
    const writes = new PendingWrites(size(1_000) + size(500));
    const [first, second, third] = [write(1_000), write(500), write(10)];
    writes.add('a', first);
    writes.add('b', second);
    writes.add('c', third);
    expect(writes.bytes).toBe(size(1_000) + size(500));
    expect(writes.take('c', third.value, 1)).toBeUndefined();
    expect(writes.take('a', Buffer.from(first.value ?? []), 2)).toBe(first);
    expect(writes.bytes).toBe(size(500));
  });

  it('frees the bytes of writes that are removed or forgotten', () => {
    const writes = new PendingWrites();
    const [first, second] = [write(100), write(200)];
    writes.add('a', first);
    writes.add('a', second);
    first.revision = 7;
    writes.forget(6);
    expect(writes.bytes).toBe(size(100) + size(200));
    writes.forget(7);
    expect(writes.bytes).toBe(size(200));
    writes.remove('a', second);
    writes.remove('a', second);
    expect(writes.bytes).toBe(0);
  });
});
