import { describe, expect, it } from 'vitest';
import { parseExact, stringifyExact } from '../../src/json/exact-json.ts';
import { floatLiteralPaths } from '../../src/json/float-literals.ts';

describe('64-bit integers', () => {
  const text =
    '{"a":9223372036854775807,"b":[-9223372036854775808,9007199254740993,9007199254740991],"s":"9223372036854775807\\"","n":null,"e":{},"l":[]}';

  it('survive parsing and serialization', () => {
    expect(parseExact(text)).toEqual({
      a: 9223372036854775807n,
      b: [-9223372036854775808n, 9007199254740993n, 9007199254740991],
      s: '9223372036854775807"',
      n: null,
      e: {},
      l: [],
    });
    expect(stringifyExact(parseExact(text))).toBe(text);
    expect(parseExact(' [ 9223372036854775807 , { "a" : [ true , false ] } ] ')).toEqual([9223372036854775807n, { a: [true, false] }]);
  });

  it.each([
    ['9223372036854775808', 9223372036854775808],
    ['100000000000000000000', 1e20],
    ['1.0000000000000000', 1],
    ['9223372036854775807.0', 2 ** 63],
    ['1000000000000000e5', 1e20],
  ])('%s is a double', (text, value) => {
    expect(parseExact(text)).toBe(value);
  });

  it('are serialized as the nearest doubles by JSON.stringify', () => {
    expect(JSON.stringify({ a: 9223372036854775807n })).toBe('{"a":9223372036854776000}');
    expect(stringifyExact({ a: 1, b: undefined, c: 'x' })).toBe('{"a":1,"c":"x"}');
    const value = { a: [1, 'x', { b: 9007199254740993n }], c: [], d: {} };
    expect(stringifyExact(value, 2)).toBe(JSON.stringify(value, undefined, 2).replace('9007199254740992', '9007199254740993'));
    expect(stringifyExact({ a: 9007199254740993n, b: undefined, c: [undefined] })).toBe('{"a":9007199254740993,"c":[null]}');
  });

  it('keep all digits beside another copy of the module, and after another library has assigned a method', async () => {
    const copy = new URL('../../src/json/exact-json.ts?copy', import.meta.url).href;
    const { stringifyExact: ofCopy } = (await import(/* @vite-ignore */ copy)) as { stringifyExact: typeof stringifyExact };
    expect(ofCopy).not.toBe(stringifyExact);
    const [value, exact] = [{ a: 9007199254740993n }, '{"a":9007199254740993}'];
    expect([stringifyExact(value), ofCopy(value)]).toEqual([exact, exact]);
    const assign = (method: typeof BigInt.prototype.toJSON) => {
      // oxlint-disable-next-line no-extend-native -- what other libraries do
      BigInt.prototype.toJSON = method;
    };
    const { toJSON } = BigInt.prototype;
    assign(function (this: bigint) {
      return this.toString();
    });
    try {
      expect(JSON.stringify(value)).toBe('{"a":"9007199254740993"}');
      expect([stringifyExact(value), ofCopy(value)]).toEqual([exact, exact]);
    } finally {
      assign(toJSON);
    }
  });

  it('do not affect the detection of __proto__ and of excessive nesting', () => {
    const value = parseExact('{"__proto__":{"a":1},"b":9223372036854775807}') as object;
    expect(Object.keys(value)).toEqual(['__proto__', 'b']);
    const deep = `${'['.repeat(50_000)}9223372036854775807${']'.repeat(50_000)}`;
    expect(() => parseExact(deep)).not.toThrow();
    expect(() => parseExact('{"a":9223372036854775807')).toThrow(SyntaxError);
  });
});

describe('whole numbers written as floats', () => {
  it.each([
    ['{"spec":{"n":1.0,"m":1,"x":1.5,"l":[2, 3e2 ,{"y":4.00}]},"v":"a: 1.0, 2e3"}', ['spec.n', 'spec.l[1]', 'spec.l[2].y']],
    ['{"a":"1.0","b":"\\",1.0","c":10.05}', []],
    ['{"a":-1E+2}', ['a']],
    ['1.0', []],
  ])('%s', (text, places) => {
    expect([...floatLiteralPaths(text)]).toEqual(places);
  });

  it('are not searched in excessively nested values', () => {
    expect(() => floatLiteralPaths(`[1.0,${'['.repeat(50_000)}${']'.repeat(50_000)}]`)).not.toThrow();
  });
});
