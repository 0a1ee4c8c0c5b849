import type { FieldError } from '@oarlock/api/field/field-error';
import type { KubeObject } from '@oarlock/api/object';
import { validateObject } from '@oarlock/api/validation/validate-object';
import { deviceSelectorErrors } from './device-selectors.ts';
import type { ServedKind } from './served-kind.ts';

/** Validates a new object in the served version, and returns the errors. `sent` is the request body. */
export function validateForCreate(
  { gvk, allowLoopback, features, customResource: custom }: ServedKind,
  object: KubeObject,
  sent?: unknown,
): readonly FieldError[] {
  if (custom !== undefined) return custom.validate({ object, old: undefined, subresource: '', sent });
  return [
    ...validateObject(gvk, object, undefined, { allowLoopback, ...(features && { features }) }),
    ...deviceSelectorErrors(gvk, object),
  ];
}

/** The new and the old object, and the subresource that is written. */
export interface UpdateValidation {
  readonly object: KubeObject;
  readonly old: KubeObject;
  readonly subresource: string;
  readonly sent?: unknown;
  /** The present time in milliseconds. */
  readonly now: number;
}

/** Validates an object that replaces `old`, and returns the errors. `subresource` is '' for the object itself. */
export function validateForUpdate(
  { gvk, allowLoopback, features, customResource: custom }: ServedKind,
  { object, old, subresource, sent, now }: UpdateValidation,
): readonly FieldError[] {
  if (custom !== undefined) return custom.validate({ object, old, subresource, sent });
  const options = { allowLoopback, now, ...(features && { features }) };
  if (subresource !== '') return validateObject(gvk, object, old, { ...options, subresource });
  return [...validateObject(gvk, object, old, options), ...deviceSelectorErrors(gvk, object, old)];
}
