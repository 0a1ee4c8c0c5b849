import type { Resource } from '@oarlock/api/resource';
import { badRequest, conflict, failure, forbidden, StatusError } from '@oarlock/api/status';
import type { AdmissionDecision } from '@oarlock/spi/admission';
import type { AdmissionAttributes } from './admission-attributes.ts';
import type { RequestContext } from '../endpoints/request/request-context.ts';

/**
 * Throws the error of a denied request. Returns if the decision allows the request.
 * @throws StatusError with upstream's message if the decision denies the request
 */
export function throwIfDenied(
  decision: AdmissionDecision,
  { resource, object, old, name }: AdmissionAttributes,
  context: RequestContext,
): void {
  if (decision.allowed) return;
  if (decision.status !== undefined) throw new StatusError(decision.status);
  const named =
    name ??
    object?.metadata?.name ??
    old?.metadata?.name ??
    (context.request.name === '' ? (object?.metadata?.generateName ?? '') : context.request.name);
  throw denialError(decision, resource, named);
}

function denialError(
  { message, reason = 'Forbidden', field }: Extract<AdmissionDecision, { readonly allowed: false }>,
  resource: Resource,
  name: string,
): StatusError {
  const details = {
    name,
    ...(resource.group !== '' && { group: resource.group }),
    kind: resource.resource,
    ...(field !== undefined && { causes: [{ message, field }] }),
  };
  switch (reason) {
    case 'Forbidden': {
      const { message: whole } = forbidden(resource, name, message);
      return failure('Forbidden', whole, details);
    }
    case 'Invalid':
      return failure(
        'Invalid',
        `${resource.group === '' ? resource.kind : `${resource.kind}.${resource.group}`} "${name}" is invalid: ${field === undefined ? '' : `${field}: `}${message}`,
        { ...details, kind: resource.kind },
      );
    case 'Conflict':
      return conflict(resource, name, message);
    case 'TooManyRequests':
      return failure('TooManyRequests', message, { ...details, retryAfterSeconds: 1 });
    case 'BadRequest':
      return badRequest(message);
    case 'NotFound':
      return failure('NotFound', message, details);
  }
}
