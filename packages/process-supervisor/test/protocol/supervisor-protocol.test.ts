import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Lines } from '../../src/protocol/supervisor-protocol.ts';

describe('Lines', () => {
  it('Lines yields the same lines for every split of the input', () => {
    fc.assert(
      fc.property(fc.array(fc.string().filter((text) => !text.includes('\n'))), fc.integer({ min: 1, max: 7 }), (texts, size) => {
        const bytes = Buffer.from(texts.map((text) => `${text}\n`).join(''));
        const lines = new Lines();
        const out: string[] = [];
        for (let at = 0; at < bytes.length; at += size) out.push(...lines.push(bytes.subarray(at, at + size)));
        expect(out).toEqual(texts.map((text) => Buffer.from(text).toString()));
        expect(lines.take()).toHaveLength(0);
      }),
    );
  });
  it('rejects a message that is too long', () => {
    const lines = new Lines();
    expect(() => {
      for (let i = 0; i < 20; i++) lines.push(Buffer.alloc(1024 * 1024, 'x'));
    }).toThrow('16 MiB');
  });
});
