import { parseTime } from '@oarlock/api/time';
import type { Secret } from '@oarlock/api/types/core-v1';

const prefix = 'bootstrap-token-';

export interface BootstrapToken {
  readonly id: string;
  readonly secret: string;
  /** Milliseconds since the epoch; undefined when it does not end. */
  readonly expires: number | undefined;
  readonly signs: boolean;
}

/** What a Secret says about a bootstrap token; undefined when it is none. https://kubernetes.io/docs/reference/access-authn-authz/bootstrap-tokens/ */
export function bootstrapToken({ metadata, type, data }: Secret): BootstrapToken | undefined {
  const field = (key: string) => Buffer.from(data?.[key] ?? '', 'base64').toString('utf8');
  const id = field('token-id');
  const secret = field('token-secret');
  if (type !== 'bootstrap.kubernetes.io/token' || metadata?.name !== `${prefix}${id}` || id === '' || secret === '') return undefined;
  const expiration = field('expiration');
  return {
    id,
    secret,
    // a date that nobody can read is over
    expires: expiration === '' ? undefined : (parseTime(expiration) ?? 0),
    signs: field('usage-bootstrap-signing') === 'true',
  };
}
