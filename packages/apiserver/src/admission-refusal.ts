import type { Resource } from '@oarlock/api/resource';
import { badRequest, conflict, failure, forbidden, StatusError } from '@oarlock/api/status';
import type { Verdict } from '@oarlock/spi/admission';
import type { Admitted } from './admission-chain.ts';
import type { Call } from './call.ts';

/** @throws StatusError when the verdict is one of refusal, in Kubernetes' words */
export function refuse(verdict: Verdict, { resource, object, old, name }: Admitted, call: Call): void {
  if (verdict.allowed) return;
  if (verdict.status !== undefined) throw new StatusError(verdict.status);
  const named =
    name ??
    object?.metadata?.name ??
    old?.metadata?.name ??
    (call.request.name === '' ? (object?.metadata?.generateName ?? '') : call.request.name);
  throw refused(verdict, resource, named);
}

function refused(
  { message, reason = 'Forbidden', field }: Extract<Verdict, { readonly allowed: false }>,
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
