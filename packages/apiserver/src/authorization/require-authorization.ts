import type { StatusError } from '@oarlock/api/status';
import type { Attributes, Authorizer } from '@oarlock/spi/authz';
import { runAuthorizers, forbiddenError } from './authorization.ts';

/** Returns the Forbidden error of a chain; undefined if it allows. Rethrows only errors of authorizers. */
export async function authorizationError(chain: readonly Authorizer[], attributes: Attributes): Promise<StatusError | undefined> {
  const { decision, reason } = await runAuthorizers(chain, attributes);
  return decision === 'allow' ? undefined : forbiddenError(attributes, reason);
}
