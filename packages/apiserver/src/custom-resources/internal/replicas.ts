import { invalid, type FieldError } from '@oarlock/api/field/field-error';
import { goText, goTypeOf } from '@oarlock/api/json/go-print';
import { isObject } from '@oarlock/api/json/json';
import type { KubeObject } from '@oarlock/api/object';
import type { CustomResourceSubresourceScale } from '@oarlock/api/types/apiextensions-v1';

const maxReplicas = 2 ** 31 - 1;

export interface ReplicasCheck {
  /** The paths of the scale subresource; undefined if the version has none. */
  readonly paths: CustomResourceSubresourceScale | undefined;
  /** The subresource of the write; '' for the object itself. */
  readonly subresource: string;
  /** The paths of whole numbers that the client wrote as floats. */
  readonly floats: ReadonlySet<string>;
}

/**
 * Validates the fields that the scale subresource exposes: replicas are non-negative integers, the selector is a string. A status update
 * validates only the fields in the status.
 */
export function validateReplicas(object: KubeObject, { paths, subresource, floats }: ReplicasCheck): readonly FieldError[] {
  if (paths === undefined) return [];
  const { specReplicasPath, statusReplicasPath, labelSelectorPath } = paths;
  const errors = [
    ...(subresource === 'status' ? [] : replicas(object, specReplicasPath, floats)),
    ...replicas(object, statusReplicasPath, floats),
  ];
  if (labelSelectorPath === undefined) return errors;
  const selector = nested(object, labelSelectorPath, { type: 'string' });
  if (selector instanceof NestedFault) errors.push(invalid(labelSelectorPath, '', selector.message));
  return errors;
}

function replicas(object: KubeObject, path: string, floats: ReadonlySet<string>): FieldError[] {
  const count = nested(object, path, { type: 'int64', floats });
  if (count instanceof NestedFault) return [invalid(path, 0, count.message)];
  const value = (count ?? 0) as number | bigint;
  if (value < 0) return [invalid(path, value, 'should be a non-negative integer')];
  return value > maxReplicas ? [invalid(path, value, `should be less than or equal to ${maxReplicas}`)] : [];
}

/** The error of reading a nested field, with the message of apimachinery's NestedFieldNoCopy. */
export class NestedFault {
  readonly message: string;
  constructor(names: readonly string[], value: unknown, { actual, expected }: { readonly actual: string; readonly expected: string }) {
    this.message = `.${names.join('.')} accessor error: ${goText(value)} is of the type ${actual}, expected ${expected}`;
  }
}

/** Returns the value of the given Go type at a simple path such as `.spec.n`; undefined if it is absent. */
export function nested(
  object: unknown,
  path: string,
  { type, floats }: { readonly type: 'int64' | 'string'; readonly floats?: ReadonlySet<string> },
): unknown {
  const names = path.split('.').slice(1);
  let value = object;
  for (const [i, name] of names.entries()) {
    if (value === null) return undefined;
    if (!isObject(value))
      return new NestedFault(names.slice(0, i + 1), value, { actual: goTypeOf(value), expected: 'map[string]interface{}' });
    if (!Object.hasOwn(value, name)) return undefined;
    value = value[name];
  }
  const actual = floats?.has(names.join('.')) === true ? 'float64' : goTypeOf(value);
  return actual === type ? value : new NestedFault(names, value, { actual, expected: type });
}
