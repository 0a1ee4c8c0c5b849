import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { elementText, parseElement, pathText } from '../../src/managed-fields/internal/field-path.ts';
import { FieldSet } from '../../src/managed-fields/field-set.ts';
import { decodeFields, encodeFields, fieldsText, sharedSet } from '../../src/managed-fields/internal/fields-v1.ts';

const element = fc.constantFrom('f:a', 'f:b', 'f:c', 'k:{"name":"x"}', 'k:{"port":80,"protocol":"TCP"}', 'v:"s"', 'v:1', 'i:0');
const path = fc.array(element, { minLength: 1, maxLength: 4 });
const set = fc.array(path, { maxLength: 12 }).map((paths) => FieldSet.of(...paths));
const texts = (of: FieldSet) => [...of.paths()].map((at) => at.join(' ')).sort();
const prefixes = (at: string) => at.split(' ').map((_, i, parts) => parts.slice(0, i + 1).join(' '));

describe('sets of fields', () => {
  it('contain paths', () => {
    fc.assert(
      fc.property(set, set, (a, b) => {
        const [x, y] = [texts(a), texts(b)];
        expect(texts(a.union(b))).toEqual([...new Set([...x, ...y])].sort());
        expect(texts(a.intersection(b))).toEqual(x.filter((at) => y.includes(at)));
        expect(texts(a.difference(b))).toEqual(x.filter((at) => !y.includes(at)));
        expect(texts(a.recursiveDifference(b))).toEqual(x.filter((at) => !prefixes(at).some((prefix) => y.includes(prefix))));
        expect(a.size).toBe(x.length);
        expect(a.equals(b)).toBe(x.join('\n') === y.join('\n'));
        for (const at of a.paths()) expect(a.has(at)).toBe(true);
      }),
    );
  });

  it('return an operand that equals the result', () => {
    fc.assert(
      fc.property(set, set, (a, b) => {
        const both = a.union(b);
        expect(both.union(a)).toBe(both);
        expect(a.difference(b.difference(a))).toBe(a);
        expect(a.difference(a).empty).toBe(true);
      }),
    );
  });

  it('survive encoding and decoding', () => {
    fc.assert(
      fc.property(set, (a) => {
        const fields = encodeFields(a);
        const read = decodeFields(JSON.parse(JSON.stringify(fields)));
        expect(read?.equals(a)).toBe(true);
        expect(fieldsText(fields)).toBe(JSON.stringify(fields));
        expect(decodeFields(fields)?.equals(a)).toBe(true);
      }),
    );
  });
});

describe('FieldsV1', () => {
  it('lists members by name before items by their keys, with a dot for members that have children', () => {
    const of = FieldSet.of(
      ['f:ports'],
      ['f:ports', 'k:{"port":443}'],
      ['f:ports', 'k:{"port":80}', 'f:name'],
      ['f:finalizers', 'v:"b"'],
      ['f:finalizers', 'v:"a"'],
      ['f:Z'],
    );
    expect(JSON.stringify(encodeFields(of))).toBe(
      '{"f:Z":{},"f:finalizers":{"v:\\"a\\"":{},"v:\\"b\\"":{}},"f:ports":{".":{},"k:{\\"port\\":80}":{"f:name":{}},"k:{\\"port\\":443}":{}}}',
    );
  });

  it('is decoded independent of the order of keys', () => {
    const read = decodeFields({ 'f:x': { 'k:{"protocol":"TCP", "port":80}': {} } });
    expect(read?.has(['f:x', 'k:{"port":80,"protocol":"TCP"}'])).toBe(true);
  });

  it('rejects anything but a tree of elements', () => {
    for (const odd of [{ a: {} }, { 'f:a': 1 }, { 'k:x': {} }, { 'i:x': {} }, { 'v:{': {} }, [], 'text', 1, { 'k:[1]': {} }])
      expect(decodeFields(odd)).toBeUndefined();
    expect(decodeFields(null)?.empty).toBe(true);
    let deep: Record<string, unknown> = {};
    for (let i = 0; i < 200; i++) deep = { 'f:a': deep };
    expect(decodeFields(deep)).toBeUndefined();
  });
});

describe('the cache of encodings', () => {
  const of = (count: number) => FieldSet.of(...Array.from({ length: count }, (_, n) => ['f:data', `f:k${n}`]));

  it('shares the encoding of equal sets, except very large ones', () => {
    expect(encodeFields(of(10))).toBe(encodeFields(of(10)));
    expect(sharedSet(of(10))).toBe(sharedSet(of(10)));
    expect(of(10).small).toBe(true);
    const [one, other] = [of(5_000), of(5_000)];
    expect(one.small).toBe(false);
    expect(encodeFields(one)).not.toBe(encodeFields(other));
    expect(encodeFields(one)).toEqual(encodeFields(other));
    expect(sharedSet(other)).toBe(other);
  });

  it('sorts elements of all types', () => {
    const mixed = FieldSet.of(['f:b'], ['k:{"name":"x"}'], ['f:a'], ['v:2'], ['v:1']);
    expect(Object.keys(encodeFields(mixed))).toEqual(['f:a', 'f:b', 'k:{"name":"x"}', 'v:1', 'v:2']);
  });
});

describe('paths', () => {
  it('are parsed in the notation of Kubernetes', () => {
    expect(pathText(['f:spec', 'f:ports', 'k:{"port":80,"protocol":"TCP"}', 'f:name'])).toBe('.spec.ports[port=80,protocol="TCP"].name');
    expect(pathText(['f:metadata', 'f:finalizers', 'v:"a"'])).toBe('.metadata.finalizers[="a"]');
    expect(elementText('i:3')).toBe('[3]');
    expect(parseElement('x:1')).toBeUndefined();
  });
});
