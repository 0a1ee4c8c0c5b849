import { Authn } from '@oarlock/spi/authn';
import { Client } from '@oarlock/spi/client';
import { Keys } from '@oarlock/spi/cluster';
import { z } from 'zod';
import { ServiceAccountAuthenticator } from './service-account-authenticator.ts';

/** Authenticates tokens of service accounts: tokens of the TokenRequest API (KEP-1205) and tokens of Secrets. */
export default Authn.plugin({
  id: 'authn-service-account',
  config: z.strictObject({
    /** Tokens for one of these audiences are accepted; default: the issuer. */
    audiences: z.array(z.string()).min(1).optional(),
    /** Milliseconds for which a verified token is accepted without another verification. A revocation takes effect within this time. */
    cacheMs: z.number().int().min(0).max(10_000).default(9_000),
  }),
  needs: { keys: Keys, client: Client },
  create: ({ config, keys, client }, { clock, log }) => new ServiceAccountAuthenticator({ ...config, keys, client, clock, log }),
});
