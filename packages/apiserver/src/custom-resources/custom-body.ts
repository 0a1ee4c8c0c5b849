import type { GroupVersionKind } from '@oarlock/api/kinds';
import type { KubeObject } from '@oarlock/api/object';
import type { Schema } from '@oarlock/api/schema';
import { decodeObject, type BodyType, type Decoded, type FieldValidation } from '@oarlock/api/serializer';
import { badRequest } from '@oarlock/api/status';
import { strictErrors, unknownFields } from '@oarlock/api/strict-fields';
import { parseYaml } from '@oarlock/api/yaml-body';

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
  const { object } = decodeObject<KubeObject>(bytes, { type, expected, schema: anything });
  if (fieldValidation === 'Ignore') return { object, warnings: [] };
  const warnings = type === 'application/json' ? strictErrors(bytes.toString('utf8'), fields()) : yamlErrors(bytes, fields());
  if (warnings.length > 0 && fieldValidation === 'Strict') {
    throw badRequest(
      `${expected.kind} in version ${JSON.stringify(expected.version)} cannot be handled as a ${expected.kind}: strict decoding error: ${warnings.join(', ')}`,
    );
  }
  return { object, warnings };
}

function yamlErrors(bytes: Buffer, fields: Schema): readonly string[] {
  const { value, duplicates } = parseYaml(bytes.toString('utf8'));
  return [...(duplicates.length === 0 ? [] : [`yaml: unmarshal errors:\n${duplicates.join('\n')}`]), ...unknownFields(fields, value)];
}
