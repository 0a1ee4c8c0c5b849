import { describe, expect, it } from 'vitest';
import { ManagedFieldsFilter } from '../../src/api/managed-fields.ts';

const managedFields = [
  { manager: 'a]"b', fieldsV1: { 'f:spec': { 'k:{"name":"x]"}': { '.': {} } } } },
  { manager: '\\', operation: '\u00e9\u{1f600}' },
];
const object = (more: object = {}) => ({
  metadata: { name: 'x\u00e9', managedFields, uid: 'u' },
  spec: { text: '"managedFields":[', other: 'managedFields', managedFieldsOf: ['x'], list: [1, '['] },
  ...more,
});
const without = (more: object = {}) => ({ ...object(more), metadata: { name: 'x\u00e9', managedFields: [], uid: 'u' } });

/** Returns what the filter keeps of a text that arrives in parts of this number of bytes. */
function filtered(text: string, size: number): string {
  const filter = new ManagedFieldsFilter();
  const decoder = new TextDecoder();
  const bytes = new TextEncoder().encode(text);
  let kept = '';
  for (let at = 0; at < bytes.length; at += size) kept += decoder.decode(filter.apply(bytes.slice(at, at + size)), { stream: true });
  return kept;
}

describe.each([1, 2, 3, 7, 16, 17, 18, 64, 100_000])('the filter of managed fields, for parts of %i bytes,', (size) => {
  const parsed = (value: unknown): unknown => JSON.parse(filtered(JSON.stringify(value), size));

  it('leaves them out, whatever brackets and quotes are in them, and nothing else', () => {
    expect(parsed(object())).toEqual(without());
  });

  it('leaves out those of each object of a list, and of each line', () => {
    expect(parsed({ rows: [object(), object({ a: 1 })] })).toEqual({ rows: [without(), without({ a: 1 })] });
    const lines = `${JSON.stringify(object())}\n${JSON.stringify(object({ a: 1 }))}\n`;
    expect(filtered(lines, size)).toBe(`${JSON.stringify(without())}\n${JSON.stringify(without({ a: 1 }))}\n`);
  });

  it('keeps empty ones', () => {
    expect(parsed({ managedFields: [], a: { managedFields: [] } })).toEqual({ managedFields: [], a: { managedFields: [] } });
  });

  it('does not change a text that contains the name of the field', () => {
    const annotation = { last: JSON.stringify(object()) };
    expect(parsed(annotation)).toEqual(annotation);
  });

  it('does not complete an incomplete text', () => {
    const json = JSON.stringify(object());
    for (const end of [json.indexOf('f:spec'), json.length - 1])
      expect(() => JSON.parse(filtered(json.slice(0, end), size)) as unknown).toThrow(SyntaxError);
  });
});
