import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { encodeFrame, encodeFrames, FrameReader, type Frame } from '../../src/protocol/session-frames.ts';

/** Splits a text at random positions. */
const pieces = fc.array(fc.uint8Array({ minLength: 1, maxLength: 40 }), { maxLength: 30 });

describe('FrameReader', () => {
  it('FrameReader yields the same frames for every split of the input', () => {
    fc.assert(
      fc.property(pieces, fc.integer({ min: 1, max: 9 }), (payloads, size) => {
        const bytes = Buffer.concat(payloads.map((payload) => encodeFrame('stdin', payload)));
        const reader = new FrameReader();
        const out: Frame[] = [];
        for (let at = 0; at < bytes.length; at += size) out.push(...reader.push(bytes.subarray(at, at + size)));
        expect(out.map(({ payload }) => [...payload])).toEqual(payloads.map((payload) => [...payload]));
      }),
    );
  });
  it('rejects frames that are too long or of an unknown kind', () => {
    expect(() => new FrameReader().push(Buffer.from([99, 0, 0, 0, 0]))).toThrow(RangeError);
    expect(() => new FrameReader().push(Buffer.from([0, 255, 0, 0, 0]))).toThrow(RangeError);
    expect(encodeFrames('stdin', Buffer.alloc(2 * 1024 * 1024 + 1))).toHaveLength(3);
  });
});
