import { describe, expect, it } from 'vitest';
import { parseWithoutManagedFields } from '../../src/api/managed-fields.ts';

const managedFields = [{ manager: 'a]"b', fieldsV1: { 'f:spec': { 'k:{"name":"x]"}': { '.': {} } } } }, { manager: '\\' }];
const object = (more: object = {}) => ({
  metadata: { name: 'x', managedFields, uid: 'u' },
  spec: { text: '"managedFields":[', list: [1, '['] },
  ...more,
});
const without = (more: object = {}) => ({ ...object(more), metadata: { name: 'x', managedFields: [], uid: 'u' } });

describe('parseWithoutManagedFields', () => {
  it('leaves out managed fields, whatever brackets and quotes are in them, and nothing else', () => {
    expect(parseWithoutManagedFields(JSON.stringify(object()))).toEqual(without());
  });

  it('leaves out those of each object of a list', () => {
    expect(parseWithoutManagedFields(JSON.stringify({ rows: [object(), object({ a: 1 })] }))).toEqual({
      rows: [without(), without({ a: 1 })],
    });
  });

  it('does not change a text that contains the name of the field', () => {
    const annotation = { last: JSON.stringify(object()) };
    expect(parseWithoutManagedFields(JSON.stringify(annotation))).toEqual(annotation);
  });

  it('does not look like a parser of its own: incomplete text is an error', () => {
    const json = JSON.stringify(object());
    for (const end of [json.indexOf('f:spec'), json.length - 1])
      expect(() => parseWithoutManagedFields(json.slice(0, end))).toThrow(SyntaxError);
  });
});
