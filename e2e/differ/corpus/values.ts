import type { Schema } from '@oarlock/api/schema/schema';
import type { Fields } from '../request.ts';

export interface NamedValue {
  readonly name: string;
  readonly value: unknown;
}

const text = 'differ';
const long = 'a'.repeat(300);

const strings: Readonly<Record<string, readonly NamedValue[]>> = {
  plain: [
    { name: 'valid', value: text },
    { name: 'wrong-type', value: 5 },
    { name: 'empty', value: '' },
    { name: 'wrong-enum', value: 'Bogus' },
    { name: 'wrong-name', value: 'Not_A Name!' },
    { name: 'too-long', value: long },
  ],
  byte: [
    { name: 'valid', value: 'ZGlmZmVy' },
    { name: 'wrong-type', value: 5 },
    { name: 'wrong-encoding', value: '*' },
  ],
  'date-time': [
    { name: 'valid', value: '2026-01-02T03:04:05Z' },
    { name: 'wrong-type', value: 5 },
    { name: 'wrong-format', value: 'yesterday' },
  ],
  quantity: [
    { name: 'valid', value: '2' },
    { name: 'negative', value: '-1' },
    { name: 'wrong-format', value: '1x' },
    { name: 'wrong-type', value: [] },
  ],
  'int-or-string': [
    { name: 'valid', value: 2 },
    { name: 'percentage', value: '200%' },
    { name: 'negative', value: -1 },
    { name: 'wrong-name', value: 'Not_A Name!' },
    { name: 'wrong-type', value: {} },
  ],
};

const integers: readonly NamedValue[] = [
  { name: 'valid', value: 2 },
  { name: 'wrong-type', value: 'two' },
  { name: 'zero', value: 0 },
  { name: 'negative', value: -1 },
  { name: 'fraction', value: 1.5 },
  { name: 'maximum', value: 2_147_483_647 },
  { name: 'overflow', value: 2_147_483_648 },
];

/** Returns a value of the schema's type with the required fields of its structs. It may still be semantically invalid. */
export function plausible(schema: Schema, depth = 0): unknown {
  if (depth > 12) return {};
  switch (schema.type) {
    case 'array':
      return [plausible(schema.items ?? schema, depth + 1)];
    case 'object':
      return schema.additionalProperties === undefined
        ? requiredFields(schema, depth)
        : { [text]: plausible(schema.additionalProperties, depth + 1) };
    case 'string':
      return stringValues(schema)[0]?.value;
    case 'integer':
    case 'number':
      return 2;
    case 'boolean':
      return true;
    default:
      return { [text]: text };
  }
}

function requiredFields(schema: Schema, depth: number): Fields {
  const result: Fields = {};
  for (const name of schema.required ?? []) {
    const property = schema.properties?.get(name);
    if (property !== undefined) result[name] = plausible(property, depth + 1);
  }
  return result;
}

const stringValues = ({ format }: Schema): readonly NamedValue[] =>
  strings[format === 'micro-time' ? 'date-time' : (format ?? 'plain')] ?? strings['plain'] ?? [];

/** Returns values for one field: a valid one of its type first, then wrong types, enums, names, formats and ranges. */
export function fieldValues(schema: Schema): readonly NamedValue[] {
  switch (schema.type) {
    case 'string':
      return stringValues(schema);
    case 'integer':
    case 'number':
      return integers;
    case 'boolean':
      return [
        { name: 'valid', value: true },
        { name: 'false', value: false },
        { name: 'wrong-type', value: 'true' },
      ];
    case 'array':
      return [
        { name: 'empty', value: [] },
        { name: 'null', value: null },
        { name: 'wrong-type', value: {} },
        { name: 'duplicate', value: [plausible(schema.items ?? schema), plausible(schema.items ?? schema)] },
      ];
    case 'object':
      return [
        { name: 'empty', value: {} },
        { name: 'null', value: null },
        { name: 'wrong-type', value: text },
        schema.additionalProperties === undefined
          ? { name: 'unknown-field', value: { ...requiredFields(schema, 0), differUnknown: text } }
          : { name: 'wrong-key', value: { 'not a key!': plausible(schema.additionalProperties) } },
      ];
    default:
      return [{ name: 'valid', value: { [text]: text } }];
  }
}
