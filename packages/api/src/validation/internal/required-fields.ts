import { required } from '../../field/field-error.ts';
import { isObject } from '../../json/json.ts';
import type { Schema } from '../../schema/schema.ts';
import type { Errors } from './checks.ts';

/**
 * Reports required strings and objects that are absent: the minimum for kinds without a validator. Numbers, booleans and lists are not
 * checked, because Go does not distinguish absent from zero; nor is the status, which controllers write in parts.
 */
export function validateRequiredFields(errors: Errors, schema: Schema, value: unknown, path = ''): void {
  if (Array.isArray(value)) {
    const { items } = schema;
    if (items !== undefined)
      for (const [i, item] of (value as unknown[]).entries()) validateRequiredFields(errors, items, item, `${path}[${i}]`);
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
    if (child !== undefined)
      validateRequiredFields(errors, child, value[key], schema.properties === undefined ? `${path}[${key}]` : at(key));
  }
}
