import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { schemaOf, type Schema } from '@oarlock/api/schema/schema';
import { decodeObject, encodeObject } from '@oarlock/api/serializer/serializer';

// Samples with a value in every field of a kind. They are not part of the repository.
const folder = fileURLToPath(new URL('../../../../../shared/spec/roundtrip-v1.36/', import.meta.url));
const names = existsSync(folder) ? readdirSync(folder).filter((name) => name.endsWith('.json')) : [];
const samples = names
  .map((name) => {
    const text = readFileSync(folder + name, 'utf8');
    const { apiVersion = '', kind = '' } = JSON.parse(text) as { apiVersion?: string; kind?: string };
    const [group = '', version = ''] = apiVersion.includes('/') ? apiVersion.split('/') : ['', apiVersion];
    return { name, text, gvk: { group, version, kind } };
  })
  .filter(({ gvk }) => schemaOf(gvk) !== undefined);

/** Checks that every value has the type of the schema; counts the present fields. */
function typed(schema: Schema, value: unknown, path: string): void {
  if (schema.type === 'any') return;
  if (schema.type === 'array') {
    expect(Array.isArray(value), path).toBe(true);
    for (const item of value as unknown[]) typed(schema.items as Schema, item, `${path}[]`);
  } else if (schema.type === 'object') {
    expect(typeof value, path).toBe('object');
    for (const [key, child] of Object.entries(value as object)) {
      const next = schema.properties?.get(key) ?? schema.additionalProperties;
      expect(next, `${path}.${key}`).toBeDefined();
      typed(next as Schema, child, `${path}.${key}`);
    }
  } else if (schema.format === 'int-or-string') expect(['number', 'string'], path).toContain(typeof value);
  // A time in a map can be null.
  else if (value !== null || schema.format !== 'date-time')
    expect(typeof value, path).toBe(schema.type === 'integer' ? 'number' : schema.type);
}

describe.skipIf(names.length === 0)('samples of every kind', () => {
  it('cover the kinds', () => {
    expect(samples.length).toBeGreaterThan(100);
  });
  it.each(samples)('$name passes strictly and comes back as it was', ({ text, gvk }) => {
    const { object } = decodeObject(text, { type: 'application/json', expected: gvk, fieldValidation: 'Strict' });
    typed(schemaOf(gvk) as Schema, object, gvk.kind);
    expect(JSON.parse(encodeObject(object))).toEqual(JSON.parse(text));
  });
});
