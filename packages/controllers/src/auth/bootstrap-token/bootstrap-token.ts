import { parseTime } from '@oarlock/api/values/time';
import type { Secret } from '@oarlock/api/types/core-v1';

const prefix = 'bootstrap-token-';

export interface BootstrapToken {
  readonly id: string;
  readonly secret: string;
  /** Expiration in milliseconds since the epoch; undefined if the token does not expire. */
  readonly expires: number | undefined;
  readonly usedForSigning: boolean;
}

/**
 * Parses a bootstrap token Secret. Returns undefined if the Secret is not a valid bootstrap token.
 * https://kubernetes.io/docs/reference/access-authn-authz/bootstrap-tokens/
 */
export function bootstrapToken({ metadata, type, data }: Secret): BootstrapToken | undefined {
  const field = (key: string) => Buffer.from(data?.[key] ?? '', 'base64').toString('utf8');
  const id = field('token-id');
  const secret = field('token-secret');
  if (type !== 'bootstrap.kubernetes.io/token' || metadata?.name !== `${prefix}${id}` || id === '' || secret === '') return undefined;
  const expiration = field('expiration');
  return {
    id,
    secret,
    // an invalid date counts as expired
    expires: expiration === '' ? undefined : (parseTime(expiration) ?? 0),
    usedForSigning: field('usage-bootstrap-signing') === 'true',
  };
}
