import { createPrivateKey, createPublicKey } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Cluster, Keys } from '@oarlock/spi/cluster';
import { Paths } from '@oarlock/spi/paths';
import { signServiceAccountToken } from '@oarlock/apiserver/endpoints/handlers/subresources/service-account-token-signer';
import { createLocalJWKSet, decodeProtectedHeader, jwtVerify, SignJWT, type JSONWebKeySet } from 'jose';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { issuerPath, jwksPathPlugin } from '../../src/paths/issuer-paths.ts';
import { openKeys, rotateServiceAccountKey } from '../../src/pki/keys.ts';

const issuer = 'https://kubernetes.default.svc.cluster.local';
let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'oarlock-issuer-'));
});
afterEach(() => rm(directory, { recursive: true }));

const answers = async (algorithm?: 'ES256' | 'RS256') => {
  const { keys } = await openKeys(directory, issuer, { algorithm });
  const host = new PluginHost()
    .provide(Keys, keys)
    .provide(Cluster, { serverUrl: 'https://192.0.2.1:6443' } as never)
    .add({ plugin: issuerPath })
    .add({ plugin: jwksPathPlugin });
  const bodies = new Map<string, unknown>();
  for (const { path, handle } of host.get(Paths))
    bodies.set(path, (await handle({ method: 'GET', path, query: {}, body: undefined, identity: { name: 'x', groups: [] } })).body);
  return { keys, bodies };
};

it('serves the keys as a JWK set that may be cached for an hour', async () => {
  const { keys } = await openKeys(directory, issuer);
  const host = new PluginHost().provide(Keys, keys).add({ plugin: jwksPathPlugin });
  const [path] = host.get(Paths);
  const request = { method: 'GET', path: '/openid/v1/jwks', query: {}, body: undefined, identity: { name: 'x', groups: [] } };
  expect(await path?.handle(request)).toMatchObject({ contentType: 'application/jwk-set+json', cacheControl: 'public, max-age=3600' });
});

// ServiceAccountIssuerDiscovery should support OIDC discovery of service account issuer
describe('service account issuer discovery', () => {
  it('serves keys that verify tokens, including those signed before a rotation', async () => {
    const before = await answers();
    expect(before.bodies.get('/.well-known/openid-configuration')).toEqual({
      issuer,
      jwks_uri: 'https://192.0.2.1:6443/openid/v1/jwks',
      response_types_supported: ['id_token'],
      subject_types_supported: ['public'],
      id_token_signing_alg_values_supported: ['ES256'],
    });
    const sign = (pem: string) => new SignJWT({ iss: issuer }).setProtectedHeader({ alg: 'ES256' }).sign(createPrivateKey(pem));
    const old = await sign(before.keys.serviceAccount.signingKey);
    await rotateServiceAccountKey(directory);
    const after = await answers();
    expect(after.keys.serviceAccount.signingKey).not.toBe(before.keys.serviceAccount.signingKey);
    expect(after.keys.serviceAccount.verifyingKeys).toHaveLength(2);
    const jwks = after.bodies.get('/openid/v1/jwks') as JSONWebKeySet;
    expect(jwks.keys.every((key) => !('d' in key) && key.use === 'sig')).toBe(true);
    const verifying = createPublicKey(after.keys.serviceAccount.signingKey).export({ format: 'jwk' });
    expect(jwks.keys[0]).toMatchObject(verifying);
    const known = createLocalJWKSet(jwks);
    for (const token of [old, await sign(after.keys.serviceAccount.signingKey)]) {
      const kid = jwks.keys.length;
      expect(kid).toBe(2);
      const tried = await Promise.allSettled(jwks.keys.map((key) => jwtVerify(token, createLocalJWKSet({ keys: [key] }), { issuer })));
      expect(tried.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    }
    expect(known).toBeTypeOf('function');
  });

  it('names the algorithms of the keys, which may be of different types', async () => {
    const supported = ({ bodies }: Awaited<ReturnType<typeof answers>>) =>
      (bodies.get('/.well-known/openid-configuration') as { readonly id_token_signing_alg_values_supported: readonly string[] })
        .id_token_signing_alg_values_supported;
    const first = await answers('RS256');
    expect(supported(first)).toEqual(['RS256']);
    const [rsa] = (first.bodies.get('/openid/v1/jwks') as JSONWebKeySet).keys;
    expect(rsa).toMatchObject({ kty: 'RSA', alg: 'RS256', use: 'sig' });
    expect(Buffer.from(rsa?.n ?? '', 'base64url')).toHaveLength(256);
    await rotateServiceAccountKey(directory, 'ES256');
    const mixed = await answers();
    expect(supported(mixed)).toEqual(['ES256', 'RS256']);
    const jwks = createLocalJWKSet(mixed.bodies.get('/openid/v1/jwks') as JSONWebKeySet);
    for (const [keys, alg] of [
      [first.keys, 'RS256'],
      [mixed.keys, 'ES256'],
    ] as const) {
      const token = await signServiceAccountToken(keys, { iss: issuer });
      expect(decodeProtectedHeader(token).alg).toBe(alg);
      expect((await jwtVerify(token, jwks, { issuer })).payload.iss).toBe(issuer);
    }
  });
});
