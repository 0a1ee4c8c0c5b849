import { describe, expect, it } from 'vitest';
import { copyFields, withoutField, withoutFields } from '../../src/json/copy-fields.ts';

describe('copyFields', () => {
  it('returns a copy with the same fields in the same order, then the changes', () => {
    const value = Object.freeze({ b: 1, a: undefined, c: [2] });
    const copy = copyFields(value, { a: 3, d: 4 });
    expect(Object.entries(copy)).toEqual([
      ['b', 1],
      ['a', 3],
      ['c', value.c],
      ['d', 4],
    ]);
    expect(Object.isFrozen(copy)).toBe(false);
    expect(value).toEqual({ b: 1, a: undefined, c: [2] });
  });

  it('copies a field with the name __proto__ as a field', () => {
    const copy = copyFields(JSON.parse('{"__proto__":{"polluted":true}}') as Record<string, unknown>);
    expect(Object.keys(copy)).toEqual(['__proto__']);
    expect(Object.getPrototypeOf(copy)).toBe(Object.prototype);
    expect(copy['polluted']).toBeUndefined();
  });
});

describe('withoutField', () => {
  it('returns a copy without the field', () => {
    const value = Object.freeze({ a: 1, b: 2, c: 3 });
    expect(withoutField(value, 'b')).toEqual({ a: 1, c: 3 });
    expect(withoutField(value, 'x')).toEqual(value);
  });
});

describe('withoutFields', () => {
  it('returns a copy without these fields, in the same order', () => {
    const value = Object.freeze({ c: 1, b: 2, a: 3 });
    expect(Object.keys(withoutFields(value, new Set(['b', 'x'])))).toEqual(['c', 'a']);
    expect(Object.keys(value)).toEqual(['c', 'b', 'a']);
  });
});
