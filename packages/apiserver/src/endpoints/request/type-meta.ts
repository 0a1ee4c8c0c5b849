import { invalid, type FieldError } from '@oarlock/api/field/field-error';
import { invalidStatus } from '@oarlock/api/field/invalid-status';
import { parseApiVersion, type GroupVersionKind } from '@oarlock/api/kinds';
import type { KubeObject } from '@oarlock/api/object';
import { apiVersionOf } from '@oarlock/api/resource';

/** Validates kind and apiVersion of an object to store. @throws StatusError Invalid if they are not those of the resource */
export function checkTypeMeta({ kind = '', apiVersion = '', metadata }: KubeObject, expected: GroupVersionKind): void {
  const errors: FieldError[] = [];
  const expectedVersion = apiVersionOf(expected);
  if (kind !== expected.kind) errors.push(invalid('kind', kind, `must be ${expected.kind}`));
  if (apiVersion !== expectedVersion) errors.push(invalid('apiVersion', apiVersion, `must be ${expectedVersion}`));
  if (errors.length > 0) throw invalidStatus({ group: parseApiVersion(apiVersion).group, kind, name: metadata?.name ?? '' }, errors);
}

/** Returns the error message for a body without a kind. */
export const missingKindError = (text: string): string => `Object 'Kind' is missing in '${text}'`;
