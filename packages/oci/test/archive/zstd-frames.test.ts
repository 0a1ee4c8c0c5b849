import { Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { decompressed } from '../../src/archive/decompression.ts';
import { ZstdFrames } from '../../src/archive/zstd-frames.ts';

const magic = Buffer.from([0x28, 0xb5, 0x2f, 0xfd]);
const block = (content: string, last = true) => {
  const header = Buffer.alloc(3);
  header.writeUIntLE((content.length << 3) | (last ? 1 : 0), 0, 3);
  return Buffer.concat([header, Buffer.from(content)]);
};
/** A frame with a window descriptor; `exponent` 10 is a window of 1 MiB. */
const frame = (exponent: number, content: string) => Buffer.concat([magic, Buffer.from([0, exponent << 3]), block(content)]);
const singleSegment = (size: number, content: string) => {
  const length = Buffer.alloc(4);
  length.writeUInt32LE(size);
  return Buffer.concat([magic, Buffer.from([0xa0]), length, block(content)]);
};
const skippable = Buffer.from([0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3]);

async function decode(bytes: Buffer, pieceLength = bytes.length): Promise<string> {
  async function* pieces(): AsyncGenerator<Buffer> {
    for (let at = 0; at < bytes.length; at += pieceLength) yield bytes.subarray(at, at + pieceLength);
  }
  const parts: Buffer[] = [];
  for await (const part of decompressed(pieces())) parts.push(part);
  return Buffer.concat(parts).toString();
}

describe('frames of zstd', () => {
  it.each([1, 3, 7, 1000])('are decoded in pieces of %i bytes', async (length) => {
    const bytes = Buffer.concat([skippable, frame(10, 'one '), singleSegment(4, 'two '), skippable, frame(17, 'three')]);
    expect(await decode(bytes, length)).toBe('one two three');
  });

  it.each([
    ['first', frame(20, 'x')],
    ['second', Buffer.concat([frame(0, 'x'), frame(20, 'x')])],
    ['single', Buffer.concat([frame(0, 'x'), singleSegment(2_000_000_000, 'x')])],
    ['after a skippable frame', Buffer.concat([skippable, frame(20, 'x')])],
    ['after a checksum', Buffer.concat([magic, Buffer.from([4, 0]), block('x'), Buffer.alloc(4), frame(31, 'x')])],
  ])('with a window of gigabytes are rejected: %s', (_, bytes) => {
    for (const length of [1, 5, bytes.length])
      expect(() => {
        const frames = new ZstdFrames();
        for (let at = 0; at < bytes.length; at += length) frames.push(bytes.subarray(at, at + length));
      }).toThrow('the window exceeds 134217728 bytes');
  });

  it('are rejected before the decoder allocates the window', async () => {
    await expect(decode(Buffer.concat([frame(0, 'x'), frame(20, 'x')]))).rejects.toThrow();
  });

  it('are decoded no further than the reader reads', async () => {
    // each block of 4 bytes expands to 128 KiB
    const runLength = Buffer.from([2 | 0, 0, 16, 0]);
    const bytes = Buffer.concat([magic, Buffer.from([0, 7 << 3]), ...Array.from({ length: 4000 }, () => runLength)]);
    const before = process.memoryUsage().arrayBuffers;
    let first = 0;
    for await (const part of decompressed(Readable.from([bytes]))) {
      first = part.length;
      break;
    }
    expect(first).toBeGreaterThan(0);
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(300 * 1024 ** 2);
  });

  it('are rejected if they have many small blocks', () => {
    const small = Buffer.concat([magic, Buffer.from([0, 17 << 3]), ...Array.from({ length: 5000 }, () => block('', false)), block('x')]);
    expect(() => new ZstdFrames().push(small)).toThrow('it has too many small blocks');
  });
});
