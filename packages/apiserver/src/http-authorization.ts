import type { StatusError } from '@oarlock/api/status';
import type { Attributes, Authorizer } from '@oarlock/spi/authz';
import { decide, refusal } from './authorization.ts';

/** The refusal of a chain, or undefined when it allows. Throws only what an authorizer throws. */
export async function refusalOf(chain: readonly Authorizer[], attributes: Attributes): Promise<StatusError | undefined> {
  const { decision, because } = await decide(chain, attributes);
  return decision === 'allow' ? undefined : refusal(attributes, because);
}
