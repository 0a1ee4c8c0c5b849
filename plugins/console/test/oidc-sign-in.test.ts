import { createHash } from 'node:crypto';
import { abstained, authenticated, type Authenticator, type Credentials, type Identity } from '@oarlock/spi/authn';
import { beforeEach, describe, expect, it } from 'vitest';
import { GrantRejected, type AuthorizationRequest } from '../src/oidc-provider.ts';
import { OidcSignIn } from '../src/oidc-sign-in.ts';
import { SessionAuthenticator } from '../src/session-authenticator.ts';
import { SessionTable } from '../src/session-table.ts';

const ada: Identity = { name: 'oidc:ada', groups: ['team'] };
const headersOf = (key: string, host = 'cluster:6443') => ({
  host,
  'x-oarlock-console': key.repeat(43),
  origin: `https://${host}`,
  cookie: 'other=1',
});
const own = headersOf('k');

let clock: { time: number; now(): number };
let requests: AuthorizationRequest[];
let exchanges: { readonly code: string; readonly redirectUri: string; readonly verifier: string }[];
/** The claims of the next ID token. */
let claims: (request: AuthorizationRequest) => object;
let presented: Credentials[];
let signIn: OidcSignIn;

beforeEach(() => {
  clock = { time: 0, now: () => clock.time };
  [requests, exchanges, presented] = [[], [], []];
  claims = ({ nonce }) => ({ nonce, aud: 'console' });
  const sessions = new SessionTable({ idleMs: 1_000, lifetimeMs: 10_000, maxSessions: 4, maxSessionsPerUser: 2, clock });
  const authenticator = new SessionAuthenticator(sessions);
  const composition: Authenticator = {
    authenticate: (credentials) => {
      presented.push(credentials);
      return credentials.bearerToken === undefined || credentials.bearerToken.includes('unknown') ? abstained : authenticated(ada);
    },
  };
  // the request of the page passes the authenticator before the handler is called
  expect(authenticator.authenticate({ headers: {}, path: '/console/session' }, composition)).toBe(abstained);
  signIn = new OidcSignIn({
    provider: {
      authorizationUrl: async (request) => {
        requests.push(request);
        return `https://login.example/authorize?state=${request.state}`;
      },
      refresh: () => Promise.reject(new Error('not expected')),
      revoke: () => Promise.reject(new Error('not expected')),
      logoutUrl: undefined,
      redeem: async (exchange) => {
        exchanges.push(exchange);
        const request = requests.at(-1);
        if (exchange.code === 'expired' || request === undefined) throw new GrantRejected('invalid_grant');
        if (exchange.code === 'down') throw new Error('connect ECONNREFUSED');
        const token = Buffer.from(JSON.stringify(claims(request))).toString('base64url');
        const idToken = `${exchange.code === 'foreign' ? 'unknown' : 'h'}.${token}.s`;
        return { idToken, ...(exchange.code === 'offline' && { refreshToken: 'r' }) };
      },
    },
    clientID: 'console',
    name: 'login.example',
    clock,
    authenticate: (credentials) => authenticator.userOf(credentials),
    log: { warn: () => undefined },
    close: () => undefined,
  });
});

async function begin(headers: Readonly<Record<string, string>> = own): Promise<string> {
  const url = await signIn.begin(headers);
  return new URL(url).searchParams.get('state') ?? '';
}

describe('a sign-in at an OIDC provider', () => {
  it('authenticates the ID token of the code, without the credentials of the request', async () => {
    const state = await begin();
    const user = await signIn.finish({ code: 'c', state }, own);
    expect(user).toMatchObject({ identity: ada, credentials: { bearerToken: expect.stringMatching(/^h\./) } });
    expect(presented).toHaveLength(1);
    expect(Object.keys(presented[0]?.headers ?? {})).toEqual(['authorization']);
  });

  it('has a renewal only with a refresh token', async () => {
    const state = await begin();
    expect(await signIn.finish({ code: 'c', state }, own)).not.toHaveProperty('renewal');
    expect(await signIn.finish({ code: 'offline', state }, own)).toHaveProperty('renewal');
  });

  it('sends the verifier of its own challenge, and the redirect URI as the browser addresses the server', async () => {
    const state = await begin(headersOf('k', 'Console.Example'));
    await signIn.finish({ code: 'c', state }, headersOf('k', 'console.example'));
    const [request] = requests;
    const [exchange] = exchanges;
    expect(exchange).toMatchObject({ code: 'c', redirectUri: 'https://console.example/console/' });
    expect(exchange?.verifier).toMatch(/^[\w-]{43}$/);
    expect(
      createHash('sha256')
        .update(exchange?.verifier ?? '')
        .digest('base64url'),
    ).toBe(request?.challenge);
    await begin();
    expect(new Set(requests.flatMap(({ state: each, nonce, challenge }) => [each, nonce, challenge])).size).toBe(6);
  });

  it.each<[string, (state: string) => string, Readonly<Record<string, string>>]>([
    ['that another page began', (state) => state, headersOf('x')],
    ['of another host', (state) => state, headersOf('k', 'other:6443')],
    ['with a changed time', (state) => state.replace(/\.\d+\./, '.99999999999.'), own],
    ['without a state', () => '', own],
    ['with an own state', () => 'a.99999999999.b', own],
  ])('%s is rejected before the code is sent', async (_, change, headers) => {
    const state = await begin();
    expect(await signIn.finish({ code: 'c', state: change(state) }, headers)).toMatch(/this page did not begin the sign-in/);
    expect(exchanges).toEqual([]);
  });

  it('has to end within ten minutes', async () => {
    const state = await begin();
    clock.time = 600_000;
    expect(await signIn.finish({ code: 'c', state }, own)).toMatch(/it took too long/);
    clock.time = 599_999;
    expect(await signIn.finish({ code: 'c', state }, own)).toMatchObject({ identity: ada });
  });

  it('is rejected with an expired code, and fails if the provider is not available', async () => {
    const state = await begin();
    expect(await signIn.finish({ code: 'expired', state }, own)).toMatch(/the OIDC provider rejected the code/);
    await expect(signIn.finish({ code: 'down', state }, own)).rejects.toThrow('ECONNREFUSED');
  });

  it.each<[string, string, (request: AuthorizationRequest) => object, RegExp]>([
    ['that no authenticator accepts', 'foreign', ({ nonce }) => ({ nonce, aud: 'console' }), /no authenticator of the API server accepts/],
    ['of another sign-in', 'c', () => ({ nonce: 'n', aud: 'console' }), /belongs to another sign-in/],
    ['without a nonce', 'c', () => ({ aud: 'console' }), /belongs to another sign-in/],
    ['for another client', 'c', ({ nonce }) => ({ nonce, aud: ['kubectl'] }), /belongs to another sign-in/],
  ])('is rejected for an ID token %s', async (_, code, tokenClaims, message) => {
    claims = tokenClaims;
    const state = await begin();
    expect(await signIn.finish({ code, state }, own)).toMatch(message);
  });
});
