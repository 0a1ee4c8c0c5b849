import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  addQuantity,
  ParsedQuantity,
  compareQuantity,
  formatQuantity,
  milliValue,
  parseQuantity,
  subQuantity,
  quantityValue,
  quantityValueBig,
} from '@oarlock/api/values/quantity';

describe('canonical form', () => {
  it.each([
    ['0', '0'],
    ['0Ki', '0'],
    ['-0', '0'],
    ['+', '0'],
    ['1', '1'],
    ['1000m', '1'],
    ['0.5', '500m'],
    ['1.5', '1500m'],
    ['.5', '500m'],
    ['1.', '1'],
    ['1024Mi', '1Gi'],
    ['1.5Gi', '1536Mi'],
    ['1023', '1023'],
    ['1023Ki', '1023Ki'],
    ['512Ki', '512Ki'],
    ['0.5Ki', '512'],
    ['1.1Ki', '1126400m'],
    ['0.0001Ki', '102400u'],
    ['1000', '1k'],
    ['123000000', '123M'],
    ['1e3', '1e3'],
    ['1E3', '1e3'],
    ['100e-3', '100e-3'],
    ['1e1', '10'],
    ['1E', '1E'],
    ['1000E', '1000E'],
    ['5n', '5n'],
    ['0.1n', '1n'],
    ['-0.1n', '-1n'],
    ['1u', '1u'],
    ['-100m', '-100m'],
    ['+2', '2'],
    ['8Ei', '9223372036854775807'],
    ['9223372036854775807', '9223372036854775807'],
    ['1Ti', '1Ti'],
    ['2048Gi', '2Ti'],
    ['100000Ki', '100000Ki'],
    ['0100', '100'],
  ])('%s is written %s', (text, canonical) => expect(formatQuantity(text)).toBe(canonical));

  it.each(['', ' ', 'abc', '1.1.M', '1+1.0M', '0.1mi', '0.1am', 'aoeu', '1i', '1e', '1 Ki', '1eK', '1e99999', '1ki', '0x10', '1_000', '١'])(
    'rejects %j',
    (text) => {
      expect(() => parseQuantity(text)).toThrow(/quantit/);
    },
  );
  it('rejects texts that would be expensive to parse', () => {
    expect(() => parseQuantity('9'.repeat(1000))).toThrow('quantities must match the regular expression');
    expect(() => parseQuantity('1e401')).toThrow("unable to parse quantity's suffix");
  });
  it('accepts JSON numbers', () => {
    expect(formatQuantity(2)).toBe('2');
    expect(formatQuantity(0.1)).toBe('100m');
    expect(formatQuantity(1e21)).toBe('1e21');
  });
});

describe('arithmetic', () => {
  it('rounds values away from zero and saturates', () => {
    expect([
      quantityValue('1.1'),
      quantityValue('-1.1'),
      quantityValue('1n'),
      milliValue('1.0001'),
      milliValue('250m'),
      milliValue('2'),
    ]).toEqual([2, -2, 1, 1001, 250, 2000]);
    expect(quantityValueBig('10E')).toBe(2n ** 63n - 1n);
  });
  it('uses the format of the first non-zero operand', () => {
    expect(`${addQuantity('0', '1Mi')}`).toBe('1Mi');
    expect(`${addQuantity('1Gi', '1000k')}`).toBe('1074741824');
    expect(`${subQuantity('1Gi', '512Mi')}`).toBe('512Mi');
    expect(`${addQuantity('1', '100m')}`).toBe('1100m');
  });
  const quantities = fc
    .tuple(fc.bigInt(-(10n ** 22n), 10n ** 22n), fc.constantFrom('n', 'u', 'm', '', 'k', 'M', 'G', 'Ki', 'Mi', 'Gi', 'e3', 'e-2'))
    .map(([n, suffix]) => `${n}${suffix}`);
  it('parses its canonical form to the same value', () => {
    fc.assert(
      fc.property(quantities, (text) => {
        const amount = parseQuantity(text);
        const again = parseQuantity(amount.toString());
        expect(again.nanos).toBe(amount.nanos);
        expect(again.toString()).toBe(amount.toString());
      }),
    );
  });
  it('agrees with exact integers for both representations', () => {
    fc.assert(
      fc.property(quantities, quantities, (a, b) => {
        const [x, y] = [parseQuantity(a), parseQuantity(b)];
        expect(x.plus(y).nanos).toBe(x.nanos + y.nanos);
        expect(x.minus(y).nanos).toBe(x.nanos - y.nanos);
        expect(compareQuantity(a, b)).toBe(x.nanos < y.nanos ? -1 : x.nanos > y.nanos ? 1 : 0);
        expect(x.plus(y).minus(y).compare(x)).toBe(0);
      }),
    );
  });
  it('keeps small numbers exact at the edge of 2^53', () => {
    const edge = ParsedQuantity.of(Number.MAX_SAFE_INTEGER);
    expect(edge.plus(ParsedQuantity.of(1)).nanos).toBe(2n ** 53n * 1_000_000_000n);
    expect(edge.plus(ParsedQuantity.of(1, 1000)).nanos).toBe((2n ** 53n - 1n) * 1_000_000_000n + 1_000_000n);
  });
});
