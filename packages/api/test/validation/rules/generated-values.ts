import { schemaOf, type Schema } from '../../../src/schema/schema.ts';
import { kinds, type Kind } from '../../../src/kinds.ts';
import { applyDefaults } from '../../../src/defaulting/apply-defaults.ts';
import type { FieldError } from '../../../src/field/field-error.ts';
import type { KubeObject } from '../../../src/object.ts';
import { validateObject } from '../../../src/validation/validate-object.ts';

type Step = string | 0;

/** A field of a kind: the steps from the object, in which 0 is the first entry of a list. */
export interface GeneratedField {
  readonly kind: Kind;
  readonly path: string;
  readonly steps: readonly Step[];
  readonly schema: Schema;
}

/** A key that is valid in no map of names, and a text that is no name, no enum value, no address and no path. */
const invalidKey = 'Bad Key!';
const invalidText = 'Bad Value! \u0001';

const textOf = (steps: readonly Step[]): string => steps.map((step, i) => (step === 0 ? '[0]' : `${i > 0 ? '.' : ''}${step}`)).join('');

function* fieldsOf(schema: Schema, steps: readonly Step[], definitions: readonly string[]): Generator<[readonly Step[], Schema]> {
  if (schema.properties !== undefined) {
    if (schema.name !== undefined && definitions.includes(schema.name)) return;
    for (const [name, child] of schema.properties)
      yield* fieldsOf(child, [...steps, name], [...definitions, ...(schema.name === undefined ? [] : [schema.name])]);
  } else if (schema.items !== undefined) yield* fieldsOf(schema.items, [...steps, 0], definitions);
  else if (schema.additionalProperties !== undefined) yield [[...steps, invalidKey], schema.additionalProperties];
  else yield [steps, schema];
}

/** Returns a value that a field of this type rejects if it has any rule; undefined for types whose values are all valid. */
function invalidValue({ type, format }: Schema): unknown {
  if (format === 'quantity') return '-1';
  if (format === 'int-or-string') return invalidText;
  if (type === 'integer' || type === 'number') return -1;
  return type === 'string' && format === undefined ? invalidText : undefined;
}

/** Fields that are not generated: pods of templates and other lists of containers have the rules of pods and of their containers. */
const repeated =
  /(?:^|[.])(?:initContainers|ephemeralContainers)\[0\]|[tT]emplate\.spec\.(?:template\.)?spec\.|template\.spec\.|[tT]emplates?(?:\[0\])?\.(?:spec\.template\.)?metadata\.|^spec\.metadata\./;

/** Returns the fields of the stable kinds that clients create, without metadata and status. The API server validates definitions itself. */
export function* generatedFields(): Generator<GeneratedField> {
  for (const kind of kinds) {
    const schema = schemaOf(kind);
    if (!/^v\d+$/.test(kind.version) || !kind.verbs.includes('create') || !kind.verbs.includes('get') || schema === undefined) continue;
    for (const [steps, field] of fieldsOf(schema, [], [])) {
      if (['metadata', 'status', 'apiVersion', 'kind'].includes(String(steps[0])) || invalidValue(field) === undefined) continue;
      const path = textOf(steps);
      if (kind.kind === 'CustomResourceDefinition' || repeated.test(path)) continue;
      yield { kind, steps, path, schema: field };
    }
  }
}

/** Returns the errors of an object in which only this field is set, to an invalid value. */
export function errorsWith({ kind, steps, schema }: GeneratedField): readonly FieldError[] {
  const fields = steps.reduceRight<unknown>((value, step) => (step === 0 ? [value] : { [step]: value }), invalidValue(schema));
  const object = {
    apiVersion: kind.group === '' ? kind.version : `${kind.group}/${kind.version}`,
    kind: kind.kind,
    metadata: { name: 'x', uid: 'u', ...(kind.namespaced && { namespace: 'd' }) },
    ...(fields as object),
  } as unknown as KubeObject;
  return validateObject(kind, applyDefaults(kind, object));
}

/** Returns true if an error is about the field: at its path, in its map, or anywhere if the error quotes the value. */
export function isRejected(field: GeneratedField, errors: readonly FieldError[]): boolean {
  const key = field.steps.at(-1) === invalidKey;
  const parent = textOf(field.steps.slice(0, -1));
  return errors.some(
    ({ field: path, message }) => path === field.path || (key && path.startsWith(parent)) || /Bad Value!|"?-1"?: /.test(message),
  );
}
