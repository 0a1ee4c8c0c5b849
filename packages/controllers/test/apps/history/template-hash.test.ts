import { dataHash, fnv1, safeEncode } from '@oarlock/controllers/apps/history/template-hash';
import { describe, expect, it } from 'vitest';

describe('fnv1', () => {
  // http://www.isthe.com/chongo/tech/comp/fnv/
  it.each([
    ['', 0x811c9dc5],
    ['a', 0x050c5d7e],
    ['foobar', 0x31f0b262],
  ])('hashes %j', (text, expected) => {
    expect(fnv1(text)).toBe(expected);
  });
});

describe('safeEncode', () => {
  it("maps digits to upstream's alphabet", () => {
    expect(safeEncode('0123456789')).toBe('456789bcdf');
  });
});

describe('dataHash', () => {
  it('hashes the JSON that Go writes, and the number of collisions', () => {
    expect(dataHash({ a: '<&>' }, 0)).toBe(safeEncode(String(fnv1('{"a":"\\u003c\\u0026\\u003e"}0'))));
    expect(dataHash({ a: 1 }, 1)).not.toBe(dataHash({ a: 1 }, 0));
  });
});
