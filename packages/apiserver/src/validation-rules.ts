import type { FieldError } from '@oarlock/api/field-error';
import type { KubeObject } from '@oarlock/api/object';
import { validateObject } from '@oarlock/api/validation';
import type { ServedKind } from './served-kind.ts';

/** What is wrong with a new object, in the version in which the client knows it. `sent` is the body that it came in. */
export function validateCreate({ gvk, allowLoopback, custom }: ServedKind, object: KubeObject, sent?: unknown): readonly FieldError[] {
  if (custom !== undefined) return custom.validate(object, undefined, '', sent);
  return validateObject(gvk, object, undefined, { allowLoopback });
}

/** What is wrong with an object that is to replace `old`; `subresource` is '' for the object itself. */
export function validateUpdate(
  { gvk, allowLoopback, custom }: ServedKind,
  object: KubeObject,
  old: KubeObject,
  subresource: string,
  sent?: unknown,
): readonly FieldError[] {
  if (custom !== undefined) return custom.validate(object, old, subresource, sent);
  return validateObject(gvk, object, old, { allowLoopback, ...(subresource !== '' && { subresource }) });
}
