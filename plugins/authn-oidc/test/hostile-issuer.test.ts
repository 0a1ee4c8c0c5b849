import { generateKeyPairSync } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Authn, type AuthnResult } from '@oarlock/spi/authn';
import { bearerCredentials } from '@oarlock/spi/authn/contract';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { CompactSign, exportJWK, generateKeyPair, SignJWT, type JWTPayload } from 'jose';
import { afterEach, describe, expect, it } from 'vitest';
import plugin from '../src/plugin.ts';

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

const pair = await generateKeyPair('ES256');
const other = await generateKeyPair('ES256');
const jwk = { kid: 'one', ...(await exportJWK(pair.publicKey)) };
const cleanups: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function serve(answer: Answer): Promise<string> {
  const server = createServer(answer);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  cleanups.push(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

interface Issuer {
  readonly url: string;
  readonly clock: FakeClock;
  /** The paths that the authenticator has requested. */
  readonly paths: string[];
  token(claims?: JWTPayload, header?: Readonly<Record<string, unknown>>): Promise<string>;
  authenticate(token: string): Promise<AuthnResult>;
}

/** Starts an issuer that publishes `keys`, and an authenticator for it. `answer` replaces the answers for its paths. */
async function open(
  { keys = [jwk] as readonly unknown[], answers = {} as Readonly<Record<string, Answer>>, timeoutSeconds = 10 } = {},
  mappings: object = { username: { claim: 'sub', prefix: '' }, groups: { claim: 'groups', prefix: '' } },
): Promise<Issuer> {
  const paths: string[] = [];
  const url: string = await serve((request, response) => {
    const path = request.url ?? '';
    paths.push(path);
    const answer = answers[path];
    if (answer !== undefined) answer(request, response);
    else response.end(JSON.stringify(path === '/keys' ? { keys } : { issuer: url, jwks_uri: `${url}/keys` }));
  });
  const clock = new FakeClock();
  const config = { jwt: [{ issuer: { url, audiences: ['oarlock'] }, claimMappings: mappings }], timeoutSeconds };
  const host = new PluginHost({ clock }).add({ plugin, config });
  const [authenticator] = host.get(Authn);
  if (authenticator === undefined) throw new Error('not created');
  await host.start();
  cleanups.push(() => host.stop());
  const now = Math.floor(clock.now() / 1000);
  return {
    url,
    clock,
    paths,
    token: (claims = {}, header = { kid: 'one' }) =>
      new SignJWT({ iss: url, aud: 'oarlock', sub: 'ada', exp: now + 3600, ...claims })
        .setProtectedHeader({ alg: 'ES256', ...header })
        .sign(pair.privateKey),
    authenticate: async (token) => authenticator.authenticate(bearerCredentials(token)),
  };
}
const discovery = '/.well-known/openid-configuration';
const json =
  (value: unknown): Answer =>
  (_, response) =>
    response.end(JSON.stringify(value));

describe('a discovery document', () => {
  it.each<[string, (url: string) => unknown, RegExp]>([
    ['of another issuer', () => ({ issuer: 'https://elsewhere', jwks_uri: 'https://elsewhere/keys' }), /names another issuer/],
    ['with inherited fields', () => JSON.parse('{"__proto__":{"issuer":"x","jwks_uri":"y"}}') as unknown, /names another issuer/],
    ['without keys', (url) => ({ issuer: url }), /names another issuer/],
    ['with keys over plain HTTP', (url) => ({ issuer: url, jwks_uri: 'http://keys.example/keys' }), /not an https:\/\/ URL/],
    ['with keys in a file', (url) => ({ issuer: url, jwks_uri: 'file:///etc/passwd' }), /not an https:\/\/ URL/],
    ['with keys at no URL', (url) => ({ issuer: url, jwks_uri: 'keys' }), /not an https:\/\/ URL/],
    ['that is a list', () => [], /names another issuer/],
  ])('%s authenticates no user', async (_, document, message) => {
    const answers: Record<string, Answer> = {};
    const issuer = await open({ answers });
    answers[discovery] = json(document(issuer.url));
    await expect(issuer.authenticate(await issuer.token())).rejects.toThrow(message);
    expect(issuer.paths).toEqual([discovery]);
  });

  it('that redirects is not followed', async () => {
    const visited: string[] = [];
    const target = await serve((request, response) => {
      visited.push(request.url ?? '');
      response.end('{}');
    });
    const issuer = await open({ answers: { [discovery]: (_, response) => response.writeHead(302, { location: target }).end('{}') } });
    await expect(issuer.authenticate(await issuer.token())).rejects.toThrow('returned status 302');
    expect(visited).toEqual([]);
  });
});

describe('a key set', () => {
  it('that redirects is not followed', async () => {
    const issuer = await open({
      answers: { '/keys': (_, response) => response.writeHead(307, { location: '/other' }).end(JSON.stringify({ keys: [jwk] })) },
    });
    await expect(issuer.authenticate(await issuer.token())).rejects.toThrow('returned status 307');
    expect(issuer.paths).toEqual([discovery, '/keys']);
  });

  it('of more than 4 MiB is not read to its end', async () => {
    let sent = 0;
    const endless: Answer = (_, response) => {
      const chunk = ' '.repeat(64 * 1024);
      const write = () => {
        while (!response.destroyed && response.write(chunk)) sent += chunk.length;
        sent += chunk.length;
      };
      response.on('drain', write);
      write();
    };
    const issuer = await open({ answers: { '/keys': endless } });
    await expect(issuer.authenticate(await issuer.token())).rejects.toThrow('larger than');
    expect(sent).toBeLessThan(64 * 1024 * 1024);
  });

  it('of more than 100 keys is rejected', async () => {
    const issuer = await open({ keys: Array.from({ length: 101 }, (_, index) => ({ ...jwk, kid: `k${index}` })) });
    await expect(issuer.authenticate(await issuer.token())).rejects.toThrow('more than 100 keys');
  });

  it('of a type that is not an object is an error of the issuer, not of the token', async () => {
    const issuer = await open({ keys: ['not a key', jwk] });
    await expect(issuer.authenticate(await issuer.token())).rejects.toThrow('are invalid');
  });

  it('with a symmetric key verifies no HS256 token', async () => {
    const secret = Buffer.from('a secret that the issuer publishes by mistake');
    const issuer = await open({ keys: [{ kty: 'oct', kid: 'one', alg: 'HS256', k: secret.toString('base64url') }, jwk] });
    const claims = { iss: issuer.url, aud: 'oarlock', sub: 'root', exp: Math.floor(issuer.clock.now() / 1000) + 60 };
    const token = await new SignJWT(claims).setProtectedHeader({ alg: 'HS256', kid: 'one' }).sign(secret);
    expect(await issuer.authenticate(token)).toEqual({ outcome: 'rejected', reason: 'the token is not valid' });
  });

  it('with a private key or a weak RSA key authenticates no user', async () => {
    const weak = generateKeyPairSync('rsa', { modulusLength: 1024 });
    for (const key of [
      await exportJWK((await generateKeyPair('ES256', { extractable: true })).privateKey),
      await exportJWK(weak.publicKey),
    ]) {
      const issuer = await open({ keys: [{ ...key, kid: 'one' }] });
      const outcome = await issuer.authenticate(await issuer.token()).then(
        (result) => result.outcome,
        () => 'failed',
      );
      expect(outcome).not.toBe('authenticated');
    }
  });

  it.each(['none', 'None', 'HS256', 'HS512', 'constructor', '__proto__', 'dir', 'EdDSA'])(
    'is not used for a token with the algorithm %s',
    async (alg) => {
      const issuer = await open();
      const [, payload = '', signature = ''] = (await issuer.token()).split('.');
      const header = Buffer.from(JSON.stringify({ alg, kid: 'one' })).toString('base64url');
      expect(await issuer.authenticate(`${header}.${payload}.${signature}`)).toMatchObject({ outcome: 'rejected' });
    },
  );

  it('is not taken from the header of a token', async () => {
    const issuer = await open();
    const foreign = await exportJWK(other.publicKey);
    const claims = { iss: issuer.url, aud: 'oarlock', sub: 'root', exp: Math.floor(issuer.clock.now() / 1000) + 60 };
    for (const header of [{ jwk: foreign }, { jku: `${issuer.url}/evil` }, { x5u: `${issuer.url}/evil` }, { kid: '../evil' }]) {
      const token = await new SignJWT(claims).setProtectedHeader({ alg: 'ES256', ...header } as { alg: string }).sign(other.privateKey);
      expect((await issuer.authenticate(token)).outcome, JSON.stringify(Object.keys(header))).toBe('rejected');
    }
    expect(issuer.paths).not.toContain('/evil');
  });

  it('with several keys of one algorithm verifies a token without a key id', async () => {
    const issuer = await open({ keys: [{ ...(await exportJWK(other.publicKey)), kid: 'two' }, jwk] });
    expect(await issuer.authenticate(await issuer.token({}, {}))).toMatchObject({ outcome: 'authenticated', identity: { name: 'ada' } });
    const none = await open({
      keys: [
        { ...(await exportJWK(other.publicKey)), kid: 'two' },
        { ...(await exportJWK(other.publicKey)), kid: 'three' },
      ],
    });
    expect(await none.authenticate(await none.token({}, {}))).toMatchObject({ outcome: 'rejected' });
  });
});

describe('a slow issuer', () => {
  it('fails the token after the timeout, and the next tokens at once', async () => {
    const silent: Answer = () => undefined;
    const answers: Record<string, Answer> = { '/keys': silent };
    const issuer = await open({ answers, timeoutSeconds: 0.2 });
    await expect(issuer.authenticate(await issuer.token())).rejects.toThrow(/timeout|aborted/i);
    const requests = issuer.paths.length;
    for (let again = 0; again < 20; again++)
      await expect(issuer.authenticate(await issuer.token())).rejects.toThrow('could not be fetched');
    expect(issuer.paths.length).toBe(requests);
    delete answers['/keys'];
    await issuer.clock.advance(10_001);
    expect(await issuer.authenticate(await issuer.token())).toMatchObject({ outcome: 'authenticated' });
  });

  it('that sends a part of its answer fails after the timeout', async () => {
    const partial: Answer = (_, response) => void response.write('{"keys":[');
    const issuer = await open({ answers: { '/keys': partial }, timeoutSeconds: 0.2 });
    await expect(issuer.authenticate(await issuer.token())).rejects.toThrow(/timeout|aborted/i);
  });
});

describe('claims', () => {
  it.each(['__proto__', 'constructor', 'toString', 'hasOwnProperty'])('named %s are read from the token only', async (claim) => {
    const issuer = await open({}, { username: { claim: 'sub', prefix: '' }, groups: { claim, prefix: '' } });
    expect(await issuer.authenticate(await issuer.token())).toMatchObject({
      outcome: 'authenticated',
      identity: { name: 'ada', groups: ['system:authenticated'] },
    });
    const withClaim = await issuer.token(JSON.parse(`{"${claim}":["devs"]}`) as JWTPayload);
    expect(await issuer.authenticate(withClaim)).toMatchObject({ identity: { groups: ['devs', 'system:authenticated'] } });
  });

  it('of __proto__ are not inherited by the claims', async () => {
    const issuer = await open();
    const token = await issuer.token(JSON.parse('{"__proto__":{"groups":["system:masters"]}}') as JWTPayload);
    expect(await issuer.authenticate(token)).toMatchObject({ identity: { groups: ['system:authenticated'] } });
    const expression = await open({}, { username: { expression: "has(claims.groups) ? 'root' : claims.sub" } });
    const again = await expression.token(JSON.parse('{"__proto__":{"groups":["system:masters"]}}') as JWTPayload);
    expect(await expression.authenticate(again)).toMatchObject({ identity: { name: 'ada' } });
  });

  it.each(['constructor', '__proto__', 'toString'])('of the name %s do not exist in an expression', async (claim) => {
    const issuer = await open({}, { username: { expression: `has(claims.${claim}) ? 'root' : claims.sub` } });
    expect(await issuer.authenticate(await issuer.token())).toMatchObject({ identity: { name: 'ada' } });
  });

  it('that are nested deeply do not end the process', async () => {
    const issuer = await open({}, { username: { expression: "claims.a == claims.b ? 'equal' : claims.sub" } });
    const deep = `${'['.repeat(9_000)}${']'.repeat(9_000)}`;
    const exp = Math.floor(issuer.clock.now() / 1000) + 60;
    const claims = `{"iss":"${issuer.url}","aud":"oarlock","sub":"ada","exp":${exp},"a":${deep},"b":${deep}}`;
    const token = await new CompactSign(Buffer.from(claims)).setProtectedHeader({ alg: 'ES256', kid: 'one' }).sign(pair.privateKey);
    expect(token.length).toBeLessThan(65_536);
    expect(await issuer.authenticate(token)).toMatchObject({ outcome: 'rejected' });
    expect(await issuer.authenticate(await issuer.token({ a: 1, b: 2 }))).toMatchObject({ outcome: 'authenticated' });
  });
});

describe('an email address in a user name expression', () => {
  const username = { expression: 'claims.email' };

  it('requires a use of claims.email_verified', async () => {
    await expect(open({}, { username })).rejects.toThrow('claims.email_verified must be used in claimMappings.username.expression');
    await expect(open({}, { username: { expression: "claims.?email.orValue('x')" } })).rejects.toThrow(
      'claims.email_verified must be used',
    );
    await expect(open({}, { username: { expression: "'claims.email_verified' + claims.email" } })).rejects.toThrow('must be used');
  });

  it.each<[string, object]>([
    ['in the user name', { username: { expression: "claims.email_verified ? claims.email : 'unverified'" } }],
    ['in an extra value', { username, extra: [{ key: 'a.b/c', valueExpression: 'string(claims.email_verified)' }] }],
  ])('accepts it %s', async (_, mappings) => {
    const issuer = await open({}, mappings);
    expect(await issuer.authenticate(await issuer.token({ email: 'a@b', email_verified: true }))).toMatchObject({
      identity: { name: 'a@b' },
    });
  });
});
