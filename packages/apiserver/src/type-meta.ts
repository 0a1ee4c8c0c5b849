import { invalid, invalidStatus, type FieldError } from '@oarlock/api/field-error';
import { parseApiVersion, type GroupVersionKind } from '@oarlock/api/kinds';
import type { KubeObject } from '@oarlock/api/object';
import { apiVersionOf } from '@oarlock/api/resource';

/** Asked of what is to be stored. @throws StatusError Invalid for an object of another kind or version than the resource */
export function checkTypeMeta({ kind = '', apiVersion = '', metadata }: KubeObject, expected: GroupVersionKind): void {
  const errors: FieldError[] = [];
  const wanted = apiVersionOf(expected);
  if (kind !== expected.kind) errors.push(invalid('kind', kind, `must be ${expected.kind}`));
  if (apiVersion !== wanted) errors.push(invalid('apiVersion', apiVersion, `must be ${wanted}`));
  if (errors.length > 0) throw invalidStatus({ group: parseApiVersion(apiVersion).group, kind, name: metadata?.name ?? '' }, errors);
}
