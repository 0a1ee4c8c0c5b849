import type { StatusError } from '@oarlock/api/status';
import type { Attributes, Authorizer } from '@oarlock/spi/authz';
import { runAuthorizers, forbiddenError } from './authorization.ts';

/**
 * Returns the Forbidden error if the authorizers do not allow the request; undefined if they allow it. Rejects if an authorizer throws
 * another error.
 */
export async function authorizationError(chain: readonly Authorizer[], attributes: Attributes): Promise<StatusError | undefined> {
  const { decision, reason } = await runAuthorizers(chain, attributes);
  return decision === 'allow' ? undefined : forbiddenError(attributes, reason);
}
