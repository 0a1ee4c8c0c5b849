import { constants, createDeflate, createInflate } from 'node:zlib';
import { once } from 'node:events';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { headerDictionary, headerDictionaryId } from '../src/internal/header-dictionary.ts';
import { dataHead, encodeFrame, FrameReader, type Frame } from '../src/frames.ts';
import { HeaderCompressor, HeaderDecompressor } from '../src/internal/header-block.ts';

const read = (bytes: Buffer, cut = bytes.length): Frame[] => {
  const reader = new FrameReader();
  const frames: Frame[] = [];
  for (let offset = 0; offset < bytes.length; offset += cut) frames.push(...reader.push(bytes.subarray(offset, offset + cut)));
  return frames;
};

describe('header blocks', () => {
  it('use the initial dictionary of SPDY/3', () => {
    let low = 1;
    let high = 0;
    for (const byte of headerDictionary) {
      low = (low + byte) % 65521;
      high = (high + low) % 65521;
    }
    expect(headerDictionary.length).toBe(1423);
    expect(((high << 16) | low) >>> 0).toBe(headerDictionaryId);
  });

  const headers = fc.dictionary(fc.stringMatching(/^[a-z][a-z-]{0,20}$/), fc.string({ unit: 'binary', maxLength: 200 }), { maxKeys: 8 });
  it('are decompressed unchanged, in order', () => {
    fc.assert(
      fc.property(fc.array(headers, { minLength: 1, maxLength: 12 }), (blocks) => {
        const compressor = new HeaderCompressor();
        const decompressor = new HeaderDecompressor();
        for (const block of blocks) expect({ ...decompressor.decompress(compressor.compress(block)) }).toEqual({ ...block });
      }),
    );
  });

  it('can be read by any zlib stream with the dictionary, beyond the window too', async () => {
    const inflate = createInflate({ dictionary: headerDictionary });
    const plain: Buffer[] = [];
    inflate.on('data', (chunk: Buffer) => plain.push(chunk));
    const compressor = new HeaderCompressor();
    const blocks = Array.from({ length: 40 }, (_, index) => ({ streamtype: 'stdin', noise: `${index}`.repeat(900), port: `${index}` }));
    for (const block of blocks)
      await new Promise((resolve) => {
        inflate.write(compressor.compress(block), resolve);
      });
    await new Promise<void>((resolve) => {
      inflate.flush(() => resolve());
    });
    const text = Buffer.concat(plain).toString('latin1');
    for (const { noise } of blocks) expect(text).toContain(noise);
  });

  it('are read from any zlib stream, with and without the dictionary', async () => {
    for (const dictionary of [headerDictionary, undefined]) {
      const deflate = createDeflate({
        ...(dictionary && { dictionary: Buffer.from(dictionary) }),
        flush: constants.Z_SYNC_FLUSH,
        level: 9,
      });
      const decompressor = new HeaderDecompressor();
      for (let index = 0; index < 30; index++) {
        const value = `value ${index} `.repeat(200);
        const block = Buffer.alloc(16 + 4 + value.length);
        block.writeUInt32BE(1, 0);
        block.writeUInt32BE(4, 4);
        block.write('name', 8, 'latin1');
        block.writeUInt32BE(value.length, 12);
        block.write(value, 16, 'latin1');
        deflate.write(block.subarray(0, 16 + value.length));
        const [packed] = (await once(deflate, 'data')) as [Buffer];
        expect(decompressor.decompress(packed)['name']).toBe(value);
      }
    }
  });

  it('are rejected if too large, truncated, or with another dictionary', () => {
    const compressor = new HeaderCompressor();
    const bomb = compressor.compress({ name: 'x'.repeat(1024 * 1024) });
    expect(bomb.length).toBeLessThan(4096);
    expect(() => new HeaderDecompressor().decompress(bomb)).toThrow(/cannot be decompressed/);
    const packed = new HeaderCompressor().compress({ name: 'value' });
    const wrong = Buffer.from(packed);
    wrong.writeUInt32BE(1, 2);
    expect(() => new HeaderDecompressor().decompress(wrong)).toThrow(/dictionary other than/);
    expect(() => new HeaderDecompressor().decompress(Buffer.from('GET / HTTP'))).toThrow(/not a zlib stream/);
    expect(() => new HeaderDecompressor().decompress(packed.subarray(0, 8))).toThrow(/decompressed|truncated/);
  });
});

describe('frames', () => {
  const block = Buffer.from('packed headers');
  const frames: Exclude<Frame, { type: 'data' }>[] = [
    { type: 'synStream', stream: 1, fin: true, unidirectional: false, priority: 5, block },
    { type: 'synReply', stream: 1, fin: false, block },
    { type: 'rstStream', stream: 7, status: 5 },
    {
      type: 'settings',
      values: new Map([
        [4, 100],
        [7, 131072],
      ]),
    },
    { type: 'ping', id: 0x80000001 },
    { type: 'goAway', lastStream: 9, status: 0 },
    { type: 'headers', stream: 3, fin: true, block },
    { type: 'windowUpdate', stream: 0, delta: 0x7fffffff },
  ];

  it('have the bytes of SPDY/3.1', () => {
    const hex = (frame: Exclude<Frame, { type: 'data' }>) => encodeFrame(frame).toString('hex');
    expect(hex({ type: 'ping', id: 1 })).toBe('800300060000000400000001');
    expect(hex({ type: 'rstStream', stream: 3, status: 5 })).toBe('80030003000000080000000300000005');
    expect(hex({ type: 'goAway', lastStream: 1, status: 0 })).toBe('80030007000000080000000100000000');
    expect(hex({ type: 'windowUpdate', stream: 0, delta: 65536 })).toBe('80030009000000080000000000010000');
    expect(hex({ type: 'settings', values: new Map([[7, 65536]]) })).toBe('800300040000000c000000010000000700010000');
    expect(hex({ type: 'synStream', stream: 1, fin: true, unidirectional: true, priority: 7, block: Buffer.from([0xaa]) })).toBe(
      '800300010300000b0000000100000000e000aa',
    );
    expect(dataHead(5, 300, true).toString('hex')).toBe('000000050100012c');
  });

  it('are parsed from any segmentation of the byte stream', () => {
    const body = Buffer.from('some data, and more of it');
    const wire = Buffer.concat([
      ...frames.map(encodeFrame),
      dataHead(5, body.length, true),
      body,
      dataHead(5, 0, true),
      encodeFrame({ type: 'ping', id: 2 }),
    ]);
    fc.assert(
      fc.property(fc.integer({ min: 1, max: wire.length }), (cut) => {
        const got = read(wire, cut);
        expect(got.filter((frame) => frame.type !== 'data')).toEqual([...frames, { type: 'ping', id: 2 }]);
        const data = got.filter((frame) => frame.type === 'data');
        expect(Buffer.concat(data.map((frame) => frame.bytes))).toEqual(body);
        expect(data.filter((frame) => frame.fin)).toHaveLength(2);
      }),
    );
  });

  it('of data are passed on as they arrive, with any length', () => {
    const reader = new FrameReader();
    expect([...reader.push(dataHead(1, 16_000_000, true))]).toEqual([]);
    const first = [...reader.push(Buffer.alloc(1000))];
    expect(first).toMatchObject([{ type: 'data', fin: false, bytes: { length: 1000 } }]);
  });

  it('of unknown types are ignored; invalid ones end the connection', () => {
    expect(read(Buffer.concat([Buffer.from('8003000b000000020102', 'hex'), encodeFrame({ type: 'ping', id: 1 })]))).toEqual([
      { type: 'ping', id: 1 },
    ]);
    expect(() => read(Buffer.from('800200060000000400000001', 'hex'))).toThrow(/SPDY version 2/);
    expect(() => read(Buffer.from('80030003000000040000000300', 'hex'))).toThrow(/truncated/);
    expect(() => read(Buffer.from('80030001007fffff00', 'hex'))).toThrow(/control frame of 8388607 bytes/);
    expect(() => read(Buffer.from('800300040000000c0000ffff0000000700010000', 'hex'))).toThrow(/SETTINGS frame has a wrong length/);
  });

  it('of random bytes are at worst rejected', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), (noise) => {
        try {
          read(Buffer.from(noise));
        } catch (error) {
          expect(error).toMatchObject({ name: 'SpdyError', code: 'Protocol' });
        }
      }),
    );
  });
});
