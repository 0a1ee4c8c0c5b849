import { fieldForbidden, invalid, notSupported, required, type FieldError } from '@oarlock/api/field/field-error';
import type { JSONSchemaProps } from '@oarlock/api/types/apiextensions-v1';

type Errors = FieldError[];

const itemsOf = ({ items }: JSONSchemaProps): JSONSchemaProps | undefined =>
  Array.isArray(items) ? undefined : (items as JSONSchemaProps | undefined);
const propertyOf = ({ properties }: JSONSchemaProps, name: string): JSONSchemaProps | undefined =>
  properties !== undefined && Object.hasOwn(properties, name) ? properties[name] : undefined;

/** Returns the errors of x-kubernetes-list-type, x-kubernetes-list-map-keys and x-kubernetes-map-type, except those of the functions below. */
export function listAndMapTypeErrors(schema: JSONSchemaProps, path: string): readonly FieldError[] {
  const errors: Errors = [];
  const { type = '' } = schema;
  const mapType = schema['x-kubernetes-map-type'];
  const listType = schema['x-kubernetes-list-type'];
  const keys = schema['x-kubernetes-list-map-keys'] ?? [];
  const requireType = (wanted: string, extension: string) => {
    const detail = `must be ${wanted} if ${extension} is specified`;
    if (type !== wanted) errors.push(type === '' ? required(`${path}.type`, detail) : invalid(`${path}.type`, type, detail));
  };
  if (mapType !== undefined) {
    requireType('object', 'x-kubernetes-map-type');
    if (mapType !== 'atomic' && mapType !== 'granular')
      errors.push(notSupported(`${path}.x-kubernetes-map-type`, mapType, ['atomic', 'granular']));
  }
  if (listType !== undefined) {
    requireType('array', 'x-kubernetes-list-type');
    if (!['atomic', 'set', 'map'].includes(listType))
      errors.push(notSupported(`${path}.x-kubernetes-list-type`, listType, ['atomic', 'set', 'map']));
  }
  if (keys.length > 0 && listType !== 'map') {
    const detail = 'must be map if x-kubernetes-list-map-keys is non-empty';
    const at = `${path}.x-kubernetes-list-type`;
    errors.push(listType === undefined ? required(at, detail) : invalid(at, listType, detail));
  }
  return listType === 'map' ? [...errors, ...mapListErrors(schema, keys, path)] : errors;
}

function mapListErrors(schema: JSONSchemaProps, keys: readonly string[], path: string): readonly FieldError[] {
  const errors: Errors = [];
  const items = itemsOf(schema);
  if (keys.length === 0) errors.push(required(`${path}.x-kubernetes-list-map-keys`, 'must not be empty if x-kubernetes-list-type is map'));
  if (items === undefined) return [...errors, required(`${path}.items`, 'must have a schema if x-kubernetes-list-type is map')];
  if (items.type !== 'object') {
    const detail = "must be object if parent array's x-kubernetes-list-type is map";
    return [...errors, invalid(`${path}.items.type`, items.type ?? '', detail)];
  }
  for (const [i, key] of keys.entries()) {
    const property = propertyOf(items, key);
    if (property === undefined)
      errors.push(invalid(`${path}.x-kubernetes-list-map-keys`, keys, 'entries must all be names of item properties'));
    else if (property.type === 'array' || property.type === 'object')
      errors.push(
        invalid(
          `${path}.items.properties[${key}].type`,
          // the reported value is the type of the items, as upstream
          items.type,
          "must be a scalar type if parent array's x-kubernetes-list-type is map",
        ),
      );
    if (keys.indexOf(key) < i) errors.push(invalid(`${path}.x-kubernetes-list-map-keys`, keys, 'must not contain duplicate entries'));
  }
  return errors;
}

/** Returns the error that the items of a list of type set are not atomic (requireAtomicSetType upstream). */
export function atomicSetErrors(schema: JSONSchemaProps, path: string): readonly FieldError[] {
  const items = itemsOf(schema);
  if (schema['x-kubernetes-list-type'] !== 'set' || schema.type !== 'array' || items === undefined) return [];
  const expected = items.type === 'object' ? 'x-kubernetes-map-type' : items.type === 'array' ? 'x-kubernetes-list-type' : undefined;
  if (expected === undefined) return [];
  const value = items[expected];
  // lists are atomic by default, maps are not; upstream reports the list type of either
  if (value === 'atomic' || (value === undefined && items.type === 'array')) return [];
  const detail = 'must be atomic as item of a list with x-kubernetes-list-type=set';
  return [invalid(`${path}.items.${expected}`, items['x-kubernetes-list-type'] ?? null, detail)];
}

/**
 * Returns the errors of lists of type set and map whose items or keys may be absent: items and keys must not be nullable, and keys must be required or
 * have a default (requireMapListKeysMapSetValidation upstream).
 */
export function mapKeyAndSetItemErrors(schema: JSONSchemaProps, path: string): readonly FieldError[] {
  const errors: Errors = [];
  const items = itemsOf(schema);
  const listType = schema['x-kubernetes-list-type'];
  if ((listType !== 'set' && listType !== 'map') || items === undefined) return errors;
  if (items.nullable === true)
    errors.push(fieldForbidden(`${path}.items.nullable`, `cannot be nullable when x-kubernetes-list-type is ${listType}`));
  if (listType === 'set') return errors;
  for (const key of schema['x-kubernetes-list-map-keys'] ?? []) {
    const property = propertyOf(items, key);
    if (property === undefined) continue;
    const at = `${path}.items.properties[${key}]`;
    if ((property.default === undefined || property.default === null) && !(items.required ?? []).includes(key))
      errors.push(
        required(`${at}.default`, 'this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property'),
      );
    if (property.nullable === true)
      errors.push(fieldForbidden(`${at}.nullable`, 'this property is in x-kubernetes-list-map-keys, so it cannot be nullable'));
  }
  return errors;
}
