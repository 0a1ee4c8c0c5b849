import { required } from '../field-error.ts';
import { isObject } from '../json.ts';
import type { Schema } from '../schema.ts';
import type { Errors } from './checks.ts';

/**
 * Required strings and objects that are absent: the least that holds of a kind without a validator of its own. Numbers, booleans and
 * lists are left out, as their absence and their zero are the same to Kubernetes; so is the status, which controllers write piece by piece.
 */
export function requiredFields(errors: Errors, schema: Schema, value: unknown, path = ''): void {
  if (Array.isArray(value)) {
    const { items } = schema;
    if (items !== undefined) for (const [i, item] of (value as unknown[]).entries()) requiredFields(errors, items, item, `${path}[${i}]`);
    return;
  }
  if (!isObject(value)) return;
  const at = (key: string) => (path === '' ? key : `${path}.${key}`);
  for (const key of schema.required ?? []) {
    const property = schema.properties?.get(key);
    const checked =
      property !== undefined && (property.type === 'string' || (property.type === 'object' && property.properties !== undefined));
    if (checked && !Object.hasOwn(value, key)) errors.push(required(at(key)));
  }
  for (const key of Object.keys(value)) {
    if (path === '' && (key === 'status' || key === 'metadata')) continue;
    const child = schema.properties === undefined ? schema.additionalProperties : schema.properties.get(key);
    if (child !== undefined) requiredFields(errors, child, value[key], schema.properties === undefined ? `${path}[${key}]` : at(key));
  }
}
