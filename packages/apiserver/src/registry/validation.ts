import type { FieldError } from '@oarlock/api/field/field-error';
import type { KubeObject } from '@oarlock/api/object';
import { validateObject } from '@oarlock/api/validation/validate-object';
import type { ServedKind } from './served-kind.ts';

/** Validates a new object in the served version, and returns the errors. `sent` is the request body. */
export function validateForCreate(
  { gvk, allowLoopback, customResource: custom }: ServedKind,
  object: KubeObject,
  sent?: unknown,
): readonly FieldError[] {
  if (custom !== undefined) return custom.validate({ object, old: undefined, subresource: '', sent });
  return validateObject(gvk, object, undefined, { allowLoopback });
}

/** Validates an object that replaces `old`, and returns the errors. `subresource` is '' for the object itself. */
export function validateForUpdate(
  { gvk, allowLoopback, customResource: custom }: ServedKind,
  object: KubeObject,
  old: KubeObject,
  subresource: string,
  sent?: unknown,
): readonly FieldError[] {
  if (custom !== undefined) return custom.validate({ object, old, subresource, sent });
  return validateObject(gvk, object, old, { allowLoopback, ...(subresource !== '' && { subresource }) });
}
