import type { GroupVersionKind } from '@oarlock/api/kinds';
import type { KubeObject } from '@oarlock/api/object';
import { apiVersionOf } from '@oarlock/api/resource';
import type { Schema } from '@oarlock/api/schema';
import { duplicateErrors, parseObject, warningsOf, type BodyType, type Decoded, type FieldValidation } from '@oarlock/api/serializer';
import { badRequest } from '@oarlock/api/status';
import { strictErrors, unknownFields } from '@oarlock/api/strict-fields';
import { rememberFloats } from './sent-floats.ts';
import { withTypedMetadata } from './typed-metadata.ts';

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
  const { value, text, duplicates, unrecognized } = parseObject(bytes, { type, expected, exact: true });
  const object = value as KubeObject;
  const { kind = '' } = object;
  if (kind === '') throw unrecognized(kindMissing(text));
  if (type === 'application/json') rememberFloats(object, text);
  // what has the wrong type is said before what is not known, and both before of what kind it is
  withTypedMetadata(object, expected);
  const errors =
    fieldValidation === 'Ignore'
      ? []
      : inOrder(
          type === 'application/json' ? strictErrors(text, fields()) : [...duplicateErrors(duplicates), ...unknownFields(fields(), value)],
        );
  if (errors.length > 0 && fieldValidation === 'Strict') {
    throw badRequest(
      `${kind} in version ${JSON.stringify(expected.version)} cannot be handled as a ${expected.kind}: strict decoding error: ${errors.join(', ')}`,
    );
  }
  checkVersion(object, expected);
  return { object, warnings: errors.flatMap(warningsOf) };
}

/** What is wrong with a text that does not say of what kind it is. */
export const kindMissing = (text: string): string => `Object 'Kind' is missing in '${text}'`;

/** @throws StatusError BadRequest for an object of another version than that of the request */
function checkVersion({ apiVersion = '' }: KubeObject, expected: GroupVersionKind): void {
  if (apiVersion === apiVersionOf(expected)) return;
  throw badRequest(`the API version in the data (${apiVersion}) does not match the expected API version (${apiVersionOf(expected)})`);
}

/** As Kubernetes tells of them: what is double, then what metadata does not know, then what the schema does not, sorted. */
export function inOrder(errors: readonly string[]): readonly string[] {
  const rank = (error: string) => (error.startsWith('unknown field "metadata.') ? 1 : error.startsWith('unknown field ') ? 2 : 0);
  const ranked = (wanted: number) => errors.filter((error) => rank(error) === wanted);
  return [...ranked(0), ...ranked(1).sort(), ...ranked(2).sort()];
}
