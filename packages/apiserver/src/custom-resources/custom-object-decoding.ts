import type { GroupVersionKind } from '@oarlock/api/kinds';
import type { KubeObject } from '@oarlock/api/object';
import { apiVersionOf } from '@oarlock/api/resource';
import type { Schema } from '@oarlock/api/schema/schema';
import {
  duplicateErrors,
  parseObject,
  warningsOf,
  type MediaType,
  type DecodedObject,
  type FieldValidation,
} from '@oarlock/api/serializer/serializer';
import { badRequest } from '@oarlock/api/status';
import { strictDecodingErrors, unknownFields } from '@oarlock/api/serializer/strict-decoding';
import { missingKindError } from '../endpoints/request/type-meta.ts';
import { recordFloatLiterals } from './float-literals.ts';
import { withTypedMetadata } from './internal/typed-metadata.ts';

export interface CustomObjectDecoding {
  readonly type: MediaType;
  readonly expected: GroupVersionKind;
  /** Returns the fields that the schema declares, for strict decoding. */
  readonly fields: () => Schema;
  readonly fieldValidation: FieldValidation;
}

/**
 * Decodes a custom resource from a request body. Unknown fields are reported according to fieldValidation; pruning removes them later.
 * @throws StatusError BadRequest with Kubernetes' message if the body is malformed
 */
export function decodeCustomObject(bytes: Buffer, { type, expected, fields, fieldValidation }: CustomObjectDecoding): DecodedObject {
  const { value, text, duplicates, unrecognized } = parseObject(bytes, { type, expected, exact: true });
  const object = value as KubeObject;
  const { kind = '' } = object;
  if (kind === '') throw unrecognized(missingKindError(text));
  if (type === 'application/json') recordFloatLiterals(object, text);
  // type errors are reported before unknown fields, and both before errors of apiVersion and kind
  withTypedMetadata(object, expected);
  const errors =
    fieldValidation === 'Ignore'
      ? []
      : sortedErrors(
          type === 'application/json'
            ? strictDecodingErrors(text, fields())
            : [...duplicateErrors(duplicates), ...unknownFields(fields(), value)],
        );
  if (errors.length > 0 && fieldValidation === 'Strict') {
    throw badRequest(
      `${kind} in version ${JSON.stringify(expected.version)} cannot be handled as a ${expected.kind}: strict decoding error: ${errors.join(', ')}`,
    );
  }
  checkVersion(object, expected);
  return { object, warnings: errors.flatMap(warningsOf) };
}

/** Validates the apiVersion of an object. @throws StatusError BadRequest if the object and the request have different versions */
function checkVersion({ apiVersion = '' }: KubeObject, expected: GroupVersionKind): void {
  if (apiVersion === apiVersionOf(expected)) return;
  throw badRequest(`the API version in the data (${apiVersion}) does not match the expected API version (${apiVersionOf(expected)})`);
}

/** Sorts strict decoding errors as Kubernetes does: duplicate fields, unknown metadata fields, other unknown fields. */
export function sortedErrors(errors: readonly string[]): readonly string[] {
  const rank = (error: string) => (error.startsWith('unknown field "metadata.') ? 1 : error.startsWith('unknown field ') ? 2 : 0);
  const ranked = (wanted: number) => errors.filter((error) => rank(error) === wanted);
  return [...ranked(0), ...ranked(1).sort(), ...ranked(2).sort()];
}
