import { createHash, createPublicKey } from 'node:crypto';
import { Cluster, Keys, tokenAlgorithmOf } from '@oarlock/spi/cluster';
import { Paths } from '@oarlock/spi/paths';
import { z } from 'zod';

const jwksPath = '/openid/v1/jwks';
/** As upstream: relying parties see a rotated key within an hour. */
const cacheControl = 'public, max-age=3600';
const algorithmOf = (pem: string) => tokenAlgorithmOf(createPublicKey(pem));

/** Returns a public key as a JWK (RFC 7517). Its id is the `kid` in the header of tokens. */
function jwkOf(pem: string): Readonly<Record<string, unknown>> {
  const key = createPublicKey(pem);
  const kid = createHash('sha256')
    .update(key.export({ type: 'spki', format: 'der' }))
    .digest('base64url');
  return { use: 'sig', kid, alg: algorithmOf(pem), ...key.export({ format: 'jwk' }) };
}

/** `GET /.well-known/openid-configuration`: service account issuer discovery (KEP-1393). */
export const issuerPath = Paths.plugin({
  id: 'service-account-issuer',
  config: z.strictObject({}),
  needs: { keys: Keys, facts: Cluster },
  create: ({ keys, facts }) => ({
    path: '/.well-known/openid-configuration',
    methods: ['GET'],
    handle: async () => ({
      code: 200,
      cacheControl,
      body: {
        issuer: keys.serviceAccount.issuer,
        jwks_uri: `${facts.serverUrl}${jwksPath}`,
        response_types_supported: ['id_token'],
        subject_types_supported: ['public'],
        id_token_signing_alg_values_supported: [...new Set(keys.serviceAccount.verifyingKeys.map(algorithmOf))],
      },
    }),
  }),
});

/** `GET /openid/v1/jwks`: the public keys that verify service account tokens. */
export const jwksPathPlugin = Paths.plugin({
  id: 'service-account-keys',
  config: z.strictObject({}),
  needs: { keys: Keys },
  create: ({ keys }) => ({
    path: jwksPath,
    methods: ['GET'],
    handle: async () => ({
      code: 200,
      cacheControl,
      contentType: 'application/jwk-set+json',
      body: { keys: keys.serviceAccount.verifyingKeys.map(jwkOf) },
    }),
  }),
});
