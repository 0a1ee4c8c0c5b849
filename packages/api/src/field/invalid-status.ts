import { failure, type StatusCause, type StatusError } from '../status.ts';
import { truncateFieldErrors } from './field-error-list.ts';
import type { FieldError } from './field-error.ts';

/** Returns the 422 status of an invalid object, `Pod "a" is invalid: spec.x: Required value`, with one cause per error (apierrors.NewInvalid). */
export function invalidStatus(
  what: { readonly group: string; readonly kind: string; readonly name: string },
  found: readonly FieldError[],
): StatusError {
  const errors = truncateFieldErrors(found);
  const lines = errors.map(({ field, message }) => `${field}: ${message}`);
  const text = lines.length === 1 ? lines[0] : `[${lines.join(', ')}]`;
  const causes = errors.map(({ type, field, message }): StatusCause => ({ reason: type, message, field }));
  const kind = what.group === '' ? what.kind : `${what.kind}.${what.group}`;
  return failure('Invalid', `${kind} "${what.name}" is invalid: ${text}`, {
    ...(what.name !== '' && { name: what.name }),
    ...(what.group !== '' && { group: what.group }),
    ...(what.kind !== '' && { kind: what.kind }),
    causes,
  });
}
