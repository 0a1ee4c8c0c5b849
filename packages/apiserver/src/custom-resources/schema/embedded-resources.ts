import { invalid, required, type FieldError } from '@oarlock/api/field/field-error';
import { isObject } from '@oarlock/api/json/json';
import { conformToSchema, UnmarshalTypeError } from '@oarlock/api/schema/conform';
import { validateObjectMeta } from '@oarlock/api/validation/meta';
import type { ObjectMeta } from '@oarlock/api/object';
import { objectMetaSchema } from './pruning-and-defaulting.ts';
import type { SchemaNode } from './schema-node.ts';

/** Validates apiVersion, kind and metadata of embedded resources (x-kubernetes-embedded-resource). */
export function validateEmbedded(schema: SchemaNode, value: unknown): readonly FieldError[] {
  if (!hasEmbedded(schema)) return [];
  const errors: FieldError[] = [];
  visitChildren(schema, value, { path: '', errors });
  return errors;
}

interface Location {
  readonly path: string;
  readonly errors: FieldError[];
}

function visit(schema: SchemaNode, value: unknown, location: Location): void {
  if (!hasEmbedded(schema)) return;
  if (schema.embedded && isObject(value)) validateEmbeddedObject(value, location);
  visitChildren(schema, value, location);
}

function visitChildren(schema: SchemaNode, value: unknown, { path, errors }: Location): void {
  if (Array.isArray(value)) {
    if (schema.items !== undefined) for (const [i, item] of value.entries()) visit(schema.items, item, { path: `${path}[${i}]`, errors });
    return;
  }
  if (!isObject(value)) return;
  const additional = schema.additionalSchema;
  for (const key of Object.keys(value)) {
    const property = schema.property(key);
    const childPath = property === undefined ? `${path}[${key}]` : path === '' ? key : `${path}.${key}`;
    const below = property ?? additional;
    if (below !== undefined) visit(below, value[key], { path: childPath, errors });
  }
}

function validateEmbeddedObject(value: Readonly<Record<string, unknown>>, { path, errors }: Location): void {
  const { apiVersion, kind, metadata } = value;
  if (apiVersion === undefined || apiVersion === '') errors.push(required(`${path}.apiVersion`));
  else if (typeof apiVersion !== 'string') errors.push(invalid(`${path}.apiVersion`, apiVersion, 'must be a string'));
  else if (apiVersion.split('/').length > 2)
    errors.push(invalid(`${path}.apiVersion`, apiVersion, `unexpected GroupVersion string: ${apiVersion}`));
  if (kind === undefined || kind === '') errors.push(required(`${path}.kind`));
  else if (typeof kind !== 'string') errors.push(invalid(`${path}.kind`, kind, 'must be a string'));
  if (metadata === undefined) return;
  try {
    const meta = conformToSchema(objectMetaSchema, metadata) as ObjectMeta;
    // name and namespace are optional: pod templates have neither
    const named = { ...meta, name: meta.name ?? meta.generateName ?? 'template' };
    validateObjectMeta(
      errors,
      named,
      meta.namespace !== undefined && meta.namespace !== '',
      () => [],
      `${path}.metadata`,
      () => {},
    );
  } catch (error) {
    if (!(error instanceof UnmarshalTypeError)) throw error;
    errors.push(invalid(`${path}.metadata`, metadata, error.message));
  }
}

const known = new WeakMap<SchemaNode, boolean>();

function hasEmbedded(schema: SchemaNode): boolean {
  let has = known.get(schema);
  if (has === undefined) {
    has =
      schema.embedded ||
      (schema.items !== undefined && hasEmbedded(schema.items)) ||
      (schema.additionalSchema !== undefined && hasEmbedded(schema.additionalSchema)) ||
      schema.propertyNames.some((name) => hasEmbedded(schema.property(name) as SchemaNode));
    known.set(schema, has);
  }
  return has;
}
