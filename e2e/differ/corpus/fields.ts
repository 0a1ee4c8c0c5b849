import type { Schema } from '@oarlock/api/schema/schema';
import { isFields, type Fields } from '../request.ts';
import { plausible } from './values.ts';

/** A field of a kind: the names from the root to it. Elements of lists have the name `[]`, values of maps `{}`. */
export interface FieldPath {
  readonly steps: readonly string[];
  readonly schema: Schema;
}

const maxDepth = 16;
/** Structs with thousands of fields that one kind covers for all others. */
const templates: ReadonlySet<string> = new Set(['core/v1.PodSpec', 'core/v1.PodTemplateSpec']);

export interface FieldOptions {
  /** Includes the fields of pod templates; default: only their roots. */
  readonly podTemplates: boolean;
  /** Includes the fields of `metadata`, which all kinds share. */
  readonly metadata: boolean;
}

/** Returns every field of a kind except its type and status. A struct that contains itself is entered once. */
export function fieldsOf(schema: Schema, options: FieldOptions): readonly FieldPath[] {
  const found: FieldPath[] = [];
  for (const [name, property] of schema.properties ?? []) {
    if (name === 'apiVersion' || name === 'kind' || name === 'status') continue;
    if (name === 'metadata' && !options.metadata) continue;
    walk({ steps: [name], schema: property }, [], { options, found });
  }
  return found;
}

interface Walk {
  readonly options: FieldOptions;
  readonly found: FieldPath[];
}

function walk(field: FieldPath, above: readonly string[], context: Walk): void {
  const { steps, schema } = field;
  if (!['[]', '{}'].includes(steps.at(-1) ?? '')) context.found.push(field);
  if (steps.length > maxDepth) return;
  if (schema.items !== undefined) walk({ steps: [...steps, '[]'], schema: schema.items }, above, context);
  if (schema.additionalProperties !== undefined) walk({ steps: [...steps, '{}'], schema: schema.additionalProperties }, above, context);
  if (schema.properties === undefined) return;
  const name = schema.name ?? '';
  if (above.includes(name) || (templates.has(name) && !context.options.podTemplates)) return;
  for (const [property, each] of schema.properties) walk({ steps: [...steps, property], schema: each }, [...above, name], context);
}

/** Returns a copy of an object with one field set. Missing structs above it are created with their required fields. */
export function withField(root: Schema, object: Fields, { steps }: FieldPath, value: unknown): Fields {
  return setAt({ schema: root, current: object, steps, value }) as Fields;
}

interface Placement {
  readonly schema: Schema | undefined;
  readonly current: unknown;
  readonly steps: readonly string[];
  readonly value: unknown;
}

function setAt({ schema, current, steps, value }: Placement): unknown {
  const [step, ...rest] = steps;
  if (step === undefined) return value;
  const existing = current ?? (schema === undefined ? {} : plausible(schema));
  if (step === '[]') {
    const [first, ...others] = Array.isArray(existing) ? existing : [];
    return [setAt({ schema: schema?.items, current: first, steps: rest, value }), ...others];
  }
  const fields = isFields(existing) ? existing : {};
  const key = step === '{}' ? (Object.keys(fields)[0] ?? 'differ') : step;
  const below = step === '{}' ? schema?.additionalProperties : schema?.properties?.get(step);
  return { ...fields, [key]: setAt({ schema: below, current: fields[key], steps: rest, value }) };
}

export const pathText = ({ steps }: FieldPath): string => steps.join('.').replaceAll('.[]', '[]').replaceAll('.{}', '{}');
