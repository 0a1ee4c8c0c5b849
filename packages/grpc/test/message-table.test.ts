import { describe, expect, it } from 'vitest';
import { MessageTable } from '@oarlock/grpc/message-table';

const messages = {
  Device: { id: '1 string', health: '2 string' },
  List: { devices: '1 repeated Device', labels: '2 map<string,string>', name: '3 string' },
};
const table = new MessageTable(messages, {}, { absent: 'undefined', maxFields: 1_000 });
const list = table.codec<{ devices: readonly object[]; labels: object; name: string }>('List');
/** Returns `count` empty elements of field 1, each of two bytes. */
const empties = (count: number): Buffer => Buffer.alloc(count * 2, Buffer.of(0x0a, 0));

describe('a message of a hostile plugin', () => {
  it.each([
    ['too many elements', empties(2_000_000)],
    ['too many entries of a map', Buffer.from(empties(1_001).map((byte) => (byte === 0x0a ? 0x12 : byte)))],
    [
      'too many fields of nested messages',
      Buffer.concat(Array.from({ length: 100 }, () => Buffer.concat([Buffer.of(0x0a, 20), empties(10)]))),
    ],
    ['too many unknown fields', Buffer.from(empties(1_001).map((byte) => (byte === 0x0a ? 0x7a : byte)))],
    ['an element that is longer than the message', Buffer.concat([Buffer.of(0x0a, 0xff, 0x7f), empties(600)])],
    ['groups in groups', Buffer.alloc(4 * 1024 * 1024, 0x1b)],
    ['a number that does not end', Buffer.alloc(2_000, 0xff)],
  ])('is rejected with %s', (_, bytes) => {
    expect(() => list.decode(bytes)).toThrow(Error);
  });

  it('does not name a prototype', () => {
    const entry = Buffer.concat([Buffer.of(0x0a, 9), Buffer.from('__proto__'), Buffer.of(0x12, 1, 0x78)]);
    const { labels } = list.decode(Buffer.concat([Buffer.of(0x12, entry.length), entry]));
    expect([Object.getPrototypeOf(labels), 'x' in {}]).toEqual([Object.prototype, false]);
  });
});

describe('a message of a plugin', () => {
  it('may have as many fields as the limit, and texts of any length', () => {
    expect(list.decode(empties(1_000)).devices).toHaveLength(1_000);
    const name = 'a'.repeat(100_000);
    expect(list.decode(list.encode({ devices: [{ id: 'a' }], labels: { a: 'b' }, name }))).toEqual({
      devices: [{ id: 'a', health: '' }],
      labels: { a: 'b' },
      name,
    });
  });
});
