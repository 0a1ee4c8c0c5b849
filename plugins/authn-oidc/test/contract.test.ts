import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Authn } from '@oarlock/spi/authn';
import { authnContract, bearerCredentials } from '@oarlock/spi/authn/contract';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { exportJWK, generateKeyPair, SignJWT, UnsecuredJWT, type JWTPayload } from 'jose';
import { describe, expect, it } from 'vitest';
import plugin from '../src/plugin.ts';

const pairs = { one: await generateKeyPair('ES256'), two: await generateKeyPair('RS256'), foreign: await generateKeyPair('ES256') };
type Key = keyof typeof pairs;

async function open(
  mappings: object = { username: { claim: 'sub', prefix: 'oidc:' }, groups: { claim: 'groups', prefix: 'oidc:' } },
  more: object = {},
) {
  const published: Key[] = ['one'];
  let fetched = 0;
  let broken = false;
  let url = '';
  const server = createServer((request, response) => {
    fetched += 1;
    void (async () => {
      const body =
        request.url === '/keys'
          ? { keys: await Promise.all(published.map(async (name) => ({ kid: name, ...(await exportJWK(pairs[name].publicKey)) }))) }
          : { issuer: url, jwks_uri: `${url}/keys` };
      response.statusCode = broken ? 500 : 200;
      response.end(JSON.stringify(body));
    })();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const clock = new FakeClock();
  const host = new PluginHost({ clock }).add({
    plugin,
    config: { jwt: [{ issuer: { url, audiences: ['oarlock', 'other'] }, claimMappings: mappings, ...more }] },
  });
  const [authenticator] = host.get(Authn);
  if (authenticator === undefined) throw new Error('not created');
  await host.start();
  const now = Math.floor(clock.now() / 1000);
  const base: JWTPayload = { iss: url, aud: 'oarlock', sub: 'ada', groups: ['devs'], iat: now, exp: now + 3600 };
  const token = (claims: JWTPayload = {}, key: Key = 'one', kid: string = key) =>
    new SignJWT({ ...base, ...claims }).setProtectedHeader({ alg: key === 'two' ? 'RS256' : 'ES256', kid }).sign(pairs[key].privateKey);
  return {
    clock,
    authenticator,
    token,
    published,
    base,
    now,
    fetched: () => fetched,
    breakDown: () => {
      broken = true;
    },
    async dispose() {
      await host.stop();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

authnContract('authn-oidc', async () => {
  const opened = await open();
  const { token, base, now } = opened;
  const good = await token();
  return {
    ...opened,
    known: [
      {
        title: 'a good token',
        credentials: bearerCredentials(good),
        identity: { name: 'oidc:ada', groups: ['oidc:devs', 'system:authenticated'] },
      },
      {
        title: 'one of several audiences',
        credentials: bearerCredentials(await token({ aud: ['x', 'other'], groups: 'one' })),
        identity: { name: 'oidc:ada', groups: ['oidc:one', 'system:authenticated'] },
      },
    ],
    invalid: [
      { title: 'another audience', credentials: bearerCredentials(await token({ aud: 'x' })) },
      { title: 'another issuer', credentials: bearerCredentials(await token({ iss: 'https://elsewhere' })) },
      { title: 'expired', credentials: bearerCredentials(await token({ exp: now - 1 })) },
      { title: 'without an expiry', credentials: bearerCredentials(await token({ exp: undefined as never })) },
      { title: 'not valid yet', credentials: bearerCredentials(await token({ nbf: now + 600 })) },
      { title: 'a key of another issuer', credentials: bearerCredentials(await token({}, 'foreign', 'one')) },
      { title: 'no signature', credentials: bearerCredentials(`${new UnsecuredJWT(base).encode()}x`) },
      {
        title: 'signed with the public key as a secret',
        credentials: bearerCredentials(
          await new SignJWT(base)
            .setProtectedHeader({ alg: 'HS256', kid: 'one' })
            .sign(new TextEncoder().encode(JSON.stringify(await exportJWK(pairs.one.publicKey)))),
        ),
      },
      { title: 'without a user name', credentials: bearerCredentials(await token({ sub: undefined as never })) },
      { title: 'with groups that are not strings', credentials: bearerCredentials(await token({ groups: 7 })) },
    ],
    secrets: [good.split('.')[2] ?? good],
  };
});

describe('authn-oidc', () => {
  it('maps claims and evaluates rules with expressions', async () => {
    const { authenticator, token, dispose } = await open(
      {
        username: { expression: "'sso/' + claims.email" },
        groups: { expression: "claims.roles.map(r, 'role:' + r)" },
        uid: { claim: 'sub' },
        extra: [{ key: 'acme.com/tenant', valueExpression: "has(claims.tenant) ? claims.tenant : ''" }],
      },
      {
        claimValidationRules: [
          { claim: 'hd', requiredValue: 'acme.com' },
          { expression: 'claims.email_verified == true', message: 'the address must be verified' },
        ],
        userValidationRules: [{ expression: "!user.username.contains('root')", message: 'root is not allowed' }],
      },
    );
    const ask = async (claims: JWTPayload) =>
      authenticator.authenticate(
        bearerCredentials(await token({ email: 'a@acme.com', email_verified: true, hd: 'acme.com', roles: ['x', 'y'], ...claims })),
      );
    expect(await ask({ tenant: 't1' })).toEqual({
      outcome: 'authenticated',
      identity: {
        name: 'sso/a@acme.com',
        uid: 'ada',
        groups: ['role:x', 'role:y', 'system:authenticated'],
        extra: { 'acme.com/tenant': ['t1'] },
      },
    });
    expect(await ask({ hd: 'evil.com' })).toMatchObject({ outcome: 'rejected' });
    expect(await ask({ email_verified: false })).toEqual({ outcome: 'rejected', reason: 'the address must be verified' });
    expect(await ask({ email: 'root@acme.com' })).toEqual({ outcome: 'rejected', reason: 'root is not allowed' });
    expect(await ask({ roles: 'none' })).toMatchObject({ outcome: 'rejected' });
    await dispose();
  });

  it('fetches keys again for an unknown key, but not for each token', async () => {
    const { authenticator, token, published, fetched, clock, dispose } = await open();
    expect(await authenticator.authenticate(bearerCredentials(await token()))).toMatchObject({ outcome: 'authenticated' });
    expect(fetched()).toBe(2);
    published.push('two');
    expect(await authenticator.authenticate(bearerCredentials(await token({}, 'two')))).toMatchObject({ outcome: 'rejected' });
    expect(fetched()).toBe(2);
    await clock.advance(10_001);
    expect(await authenticator.authenticate(bearerCredentials(await token({}, 'two')))).toMatchObject({ outcome: 'authenticated' });
    expect(fetched()).toBe(4);
    await dispose();
  });

  it('rejects a configuration with an expression that does not compile', async () => {
    await expect(open({ username: { expression: 'claims.' } })).rejects.toThrow(/claimMappings.username/);
  });
});
