import { Authn } from '@oarlock/spi/authn';
import { Client } from '@oarlock/spi/client';
import { Keys } from '@oarlock/spi/cluster';
import { z } from 'zod';
import { ServiceAccountAuthenticator } from './service-account-authenticator.ts';

/** Authenticates service account tokens: tokens of the TokenRequest API (KEP-1205) and tokens of Secrets. */
export default Authn.plugin({
  id: 'authn-service-account',
  config: z.strictObject({
    /** The accepted audiences, of which a token must have at least one; by default the issuer. */
    audiences: z.array(z.string()).min(1).optional(),
    /** How long a verified token is accepted without another verification, in milliseconds. A revocation takes effect within this time. */
    cacheMs: z.number().int().min(0).max(10_000).default(9_000),
  }),
  needs: { keys: Keys, client: Client },
  create: ({ config, keys, client }, { clock, log }) => new ServiceAccountAuthenticator({ ...config, keys, client, clock, log }),
});
