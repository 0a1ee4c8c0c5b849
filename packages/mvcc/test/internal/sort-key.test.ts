import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { endOfPrefix, sortKey } from '../../src/internal/sort-key.ts';

describe('sortKey', () => {
  const text = fc.string({ unit: 'binary', maxLength: 8 });

  it('sorts in the order of UTF-8 bytes', () => {
    fc.assert(
      fc.property(text, text, (a, b) => {
        const [x, y] = [sortKey(a), sortKey(b)];
        expect(Math.sign(Buffer.compare(Buffer.from(a), Buffer.from(b)))).toBe(x < y ? -1 : x > y ? 1 : 0);
      }),
      { numRuns: 2000 },
    );
  });

  it('preserves prefixes, and endOfPrefix bounds them', () => {
    fc.assert(
      fc.property(text, text, text, (prefix, rest, other) => {
        const end = endOfPrefix(sortKey(prefix));
        expect(sortKey(prefix + rest).startsWith(sortKey(prefix))).toBe(true);
        for (const key of [prefix + rest, other]) {
          const within = sortKey(key) >= sortKey(prefix) && (end === undefined || sortKey(key) < end);
          expect(within).toBe(key.startsWith(prefix));
        }
      }),
      { numRuns: 2000 },
    );
  });

  it('throws TypeError for a lone surrogate, which has no UTF-8 encoding', () => {
    expect(() => sortKey('a\ud800')).toThrow(TypeError);
    expect(sortKey('x'.repeat(10_000) + '\uffff')).toHaveLength(10_001);
  });
});
