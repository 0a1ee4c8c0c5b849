import type { GroupVersionKind } from '@oarlock/api/kinds';
import type { KubeObject } from '@oarlock/api/object';
import type { Schema } from '@oarlock/api/schema';
import { decodeObject, type BodyType, type Decoded, type FieldValidation } from '@oarlock/api/serializer';
import { badRequest } from '@oarlock/api/status';
import { strictErrors, unknownFields } from '@oarlock/api/strict-fields';
import { parseYaml } from '@oarlock/api/yaml-body';
import { rememberFloats } from './sent-floats.ts';
import { withTypedMetadata } from './typed-metadata.ts';

const anything: Schema = { type: 'any' };

/**
 * A custom resource out of a body, as it was sent: what its schema does not know is dropped later, and told of here.
 * @throws StatusError BadRequest with the message that Kubernetes gives
 */
export function decodeCustomBody(
  bytes: Buffer,
  type: BodyType,
  expected: GroupVersionKind,
  fields: () => Schema,
  fieldValidation: FieldValidation,
): Decoded {
  const { object } = decodeObject<KubeObject>(bytes, { type, expected, schema: anything, complete: true, exact: true });
  if (type === 'application/json') rememberFloats(object, bytes.toString('utf8'));
  // what has the wrong type is said before what is not known
  withTypedMetadata(object, expected);
  if (fieldValidation === 'Ignore') return { object, warnings: [] };
  const warnings = inOrder(type === 'application/json' ? strictErrors(bytes.toString('utf8'), fields()) : yamlErrors(bytes, fields()));
  if (warnings.length > 0 && fieldValidation === 'Strict') {
    throw badRequest(
      `${expected.kind} in version ${JSON.stringify(expected.version)} cannot be handled as a ${expected.kind}: strict decoding error: ${warnings.join(', ')}`,
    );
  }
  return { object, warnings };
}

/** As Kubernetes tells of them: what is double, then what metadata does not know, then what the schema does not, sorted. */
export function inOrder(errors: readonly string[]): readonly string[] {
  const rank = (error: string) => (error.startsWith('unknown field "metadata.') ? 1 : error.startsWith('unknown field ') ? 2 : 0);
  const ranked = (wanted: number) => errors.filter((error) => rank(error) === wanted);
  return [...ranked(0), ...ranked(1).sort(), ...ranked(2).sort()];
}

function yamlErrors(bytes: Buffer, fields: Schema): readonly string[] {
  const { value, duplicates } = parseYaml(bytes.toString('utf8'));
  return [...(duplicates.length === 0 ? [] : [`yaml: unmarshal errors:\n${duplicates.join('\n')}`]), ...unknownFields(fields, value)];
}
