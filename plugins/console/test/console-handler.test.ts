import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import type { Logger } from '@oarlock/primitives/logger';
import { abstained, anonymous, authenticated, rejected, type Authenticator, type Credentials, type Identity } from '@oarlock/spi/authn';
import type { PathResponse } from '@oarlock/spi/paths';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ConsoleHandler, type ConsoleHandlerOptions } from '../src/console-handler.ts';
import { PageFiles } from '../src/page-files.ts';
import { SessionAuthenticator } from '../src/session-authenticator.ts';
import { SessionTable } from '../src/session-table.ts';
import { SignInLinks } from '../src/sign-in-links.ts';

const ada: Identity = { name: 'ada', groups: ['team'] };
const key = 'k'.repeat(43);
const own = { host: 'cluster:6443', 'x-oarlock-console': key, origin: 'https://cluster:6443', 'sec-fetch-site': 'same-origin' };

let folder: string;
let logged: string[];
let clock: { time: number; now(): number };
let options: ConsoleHandlerOptions;
let handler: ConsoleHandler;
/** What the authenticators of the composition decide about the token of a session. */
let decision: () => ReturnType<Authenticator['authenticate']>;

beforeEach(async () => {
  decision = () => authenticated(ada);
  folder = await mkdtemp(join(tmpdir(), 'oarlock-console-'));
  await writeFile(join(folder, 'index.html.gz'), gzipSync('<!doctype html>'));
  await writeFile(join(folder, 'main-ABCDEFGH.js.gz'), gzipSync('export {};'));
  await writeFile(join(folder, 'secret.txt'), 'secret');
  await writeFile(join(folder, 'notes.md.gz'), gzipSync('not a part of the page'));
  logged = [];
  clock = { time: 0, now: () => clock.time };
  const record = (...entry: readonly unknown[]) => void logged.push(JSON.stringify(entry));
  const log = { debug: record, info: record, warn: record, error: record } as unknown as Logger;
  const sessions = new SessionTable({ idleMs: 1_000, lifetimeMs: 10_000, maxSessions: 4, maxSessionsPerUser: 2, clock });
  options = {
    sessions,
    links: new SignInLinks(5_000, clock),
    files: new PageFiles(() => folder),
    authenticator: new SessionAuthenticator(sessions),
    signIn: 'any',
    cluster: { name: 'c', version: 'v1.36.0', url: 'https://cluster:6443' },
    log,
  };
  handler = new ConsoleHandler(options);
});
afterEach(() => rm(folder, { recursive: true }));

interface Request {
  readonly path: string;
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly identity?: Identity;
  readonly body?: unknown;
  readonly bearerToken?: string;
}

function request({ path, method = 'GET', headers = own, identity = anonymous, body, bearerToken }: Request): Promise<PathResponse> {
  const credentials: Credentials = { headers, path, ...(bearerToken !== undefined && { bearerToken }) };
  return handler.handle({ method, path, query: {}, body, identity, credentials });
}
const signIn = (more: Partial<Request> = {}) => request({ path: '/console/session', method: 'POST', ...more });
const cookieOf = ({ headers = {} }: PathResponse): string => headers['Set-Cookie']?.split(';')[0] ?? '';
const composition: Authenticator = { authenticate: ({ bearerToken }) => (bearerToken === undefined ? abstained : decision()) };
const authenticate = async (headers: Readonly<Record<string, string>>, path = '/api/v1/pods') =>
  handler.authenticator.authenticate({ headers, path }, composition);
async function createLink(identity = ada): Promise<string> {
  const { body } = await handler.handle({ method: 'POST', path: '/console/links', query: {}, body: undefined, identity });
  return /#\/sign-in\/([\w-]+)$/.exec((body as { readonly url: string }).url)?.[1] ?? '';
}

describe('the history of metrics', () => {
  it('is that of the user of the request, for the own page only', async () => {
    const history = { for: async ({ name }: Identity) => ({ now: 5, samples: { [name]: [] } }), stop: () => undefined };
    expect(await request({ path: '/console/history', identity: ada })).toMatchObject({ code: 404 });
    handler = new ConsoleHandler({ ...options, history });
    expect(await request({ path: '/console/history', identity: ada })).toMatchObject({ code: 200, body: { now: 5, samples: { ada: [] } } });
    expect(await request({ path: '/console/history', identity: ada, headers: { host: own.host } })).toMatchObject({ code: 403 });
    expect(await request({ path: '/console/history', method: 'POST', identity: ada })).toMatchObject({ code: 405 });
  });
});

describe('sign-in at an OIDC provider', () => {
  const bob: Identity = { name: 'bob', groups: [] };
  const begin = (more: Partial<Request> = {}) => request({ path: '/console/oidc', method: 'POST', ...more });
  const body = { code: 'c', state: 's' };
  const withProvider = (oidc: Partial<ConsoleHandlerOptions['oidc']> = {}) => {
    const finish = async () => ({ identity: bob, credentials: { headers: {}, path: '/', bearerToken: 't' } });
    const methods = { begin: async () => 'https://login.example/', finish, close: () => undefined };
    const provider = { name: 'login.example', logoutUrl: undefined, ...methods, ...oidc };
    handler = new ConsoleHandler({ ...options, oidc: provider });
  };

  it('begins and ends with requests of the own page, and names the provider', async () => {
    withProvider();
    expect(await request({ path: '/console/session' })).toMatchObject({ body: { oidc: { name: 'login.example' } } });
    expect(await begin()).toMatchObject({ code: 200, body: { url: 'https://login.example/' } });
    const response = await signIn({ body });
    expect(response).toMatchObject({ code: 201, body: { user: { name: 'bob' } } });
    decision = () => authenticated(bob);
    expect(await authenticate({ ...own, cookie: cookieOf(response) })).toMatchObject({
      annotations: { 'console.oarlock.dev/sign-in': 'oidc' },
    });
    const foreign = { headers: { ...own, origin: 'https://evil.example' } };
    expect([(await begin(foreign)).code, (await signIn({ body, ...foreign })).code]).toEqual([403, 403]);
  });

  it('is rejected with the reason, and reports a provider that is not available', async () => {
    withProvider({ finish: async () => 'the code is used', begin: () => Promise.reject(new Error('ECONNREFUSED')) });
    expect(await signIn({ body })).toMatchObject({ code: 401, body: { message: 'the code is used' } });
    expect(await begin()).toMatchObject({ code: 503, body: { message: 'the OIDC provider is not available: ECONNREFUSED' } });
  });

  it('ends at sign-out at once, revokes the tokens, and returns where the user signs out at the provider', async () => {
    let revocations = 0;
    const renewal = {
      credentials: async () => ({ headers: {}, path: '/', bearerToken: 't' }),
      end: () => {
        revocations += 1;
        return new Promise<void>(() => undefined); // the provider never answers
      },
    };
    const finish = async () => ({ identity: bob, credentials: { headers: {}, path: '/', bearerToken: 't' }, renewal });
    withProvider({ finish, logoutUrl: 'https://login.example/logout' });
    decision = () => authenticated(bob);
    const headers = { ...own, cookie: cookieOf(await signIn({ body })) };
    const signOut = () => request({ path: '/console/session', method: 'DELETE', headers });
    expect(await signOut()).toMatchObject({ code: 200, body: { logoutUrl: 'https://login.example/logout' } });
    expect(await authenticate(headers)).toMatchObject({ outcome: 'rejected' });
    expect([(await signOut()).body, revocations]).toEqual([{}, 1]);
    const linked = { ...own, cookie: cookieOf(await signIn({ body: { link: await createLink() } })) };
    expect((await request({ path: '/console/session', method: 'DELETE', headers: linked })).body).toEqual({});
  });

  it('does not exist without a provider', async () => {
    expect([(await begin()).code, (await signIn({ body })).code]).toEqual([404, 404]);
    expect((await request({ path: '/console/session' })).body).not.toHaveProperty('oidc');
  });
});

describe('sign-in', () => {
  it('by a link begins a session of the user who created the link, once', async () => {
    const link = await createLink();
    const response = await signIn({ body: { link } });
    expect(response).toMatchObject({ code: 201, body: { user: { name: 'ada', groups: ['team'] } } });
    expect(await authenticate({ ...own, cookie: cookieOf(response) })).toMatchObject({
      outcome: 'authenticated',
      identity: ada,
      annotations: { 'console.oarlock.dev/sign-in': 'link' },
    });
    expect(await signIn({ body: { link } })).toMatchObject({ code: 401 });
  });

  it('sets a cookie that scripts cannot read and other sites do not send', async () => {
    const { headers = {} } = await signIn({ body: { link: await createLink() } });
    expect(headers['Set-Cookie']).toMatch(/^__Host-oarlock-session-6443=[\w-]{43}; Path=\/; Secure; HttpOnly; SameSite=Strict$/);
  });

  it('with credentials begins a session that ends with the token', async () => {
    const token = `h.${Buffer.from(JSON.stringify({ exp: 2 })).toString('base64url')}.s`;
    const response = await signIn({ identity: ada, bearerToken: token });
    expect(response).toMatchObject({ code: 201, body: { user: { expiresAt: 2_000 } } });
  });

  it.each([
    ['without credentials', { body: undefined }, 401],
    ['with an unknown link', { body: { link: 'x' } }, 401],
    ['with another body', { body: { name: 'ada' } }, 400],
    ['from another site', { headers: { ...own, origin: 'https://evil.example' }, identity: ada }, 403],
    ['as an impersonated user', { headers: { ...own, 'impersonate-user': 'ada' }, identity: ada, bearerToken: 'a.b.c' }, 403],
    ['without the header of the console', { headers: { host: 'cluster:6443', origin: own.origin }, identity: ada }, 403],
  ])('is rejected %s', async (_, more, code) => {
    const response = await signIn(more);
    expect(response.code).toBe(code);
    expect(cookieOf(response)).toBe('');
  });

  it('writes no secret to the log', async () => {
    const link = await createLink();
    const response = await signIn({ body: { link } });
    const secret = cookieOf(response).split('=')[1] ?? '';
    expect(logged.join('\n')).toContain('ada');
    for (const text of [link, secret]) expect(logged.join('\n')).not.toContain(text);
  });
});

describe('a session', () => {
  const signedIn = async () => ({ ...own, cookie: cookieOf(await signIn({ body: { link: await createLink() } })) });

  it('does not authenticate navigations, images and scripts, which lack the header', async () => {
    const { cookie } = await signedIn();
    expect(await authenticate({ host: own.host, cookie, 'sec-fetch-site': 'same-origin' })).toEqual({ outcome: 'abstained' });
  });
  it('is rejected when it has expired, except on the paths where the user signs in again', async () => {
    const headers = await signedIn();
    clock.time = 2_000;
    expect((await authenticate(headers)).outcome).toBe('rejected');
    expect((await authenticate(headers, '/console/session')).outcome).toBe('abstained');
  });
  it('does not take the place of a bearer token', async () => {
    const headers = await signedIn();
    expect(handler.authenticator.authenticate({ headers, bearerToken: 'invalid', path: '/api' }, composition)).toEqual({
      outcome: 'abstained',
    });
  });
  it('ends at sign-out', async () => {
    const headers = await signedIn();
    const response = await request({ path: '/console/session', method: 'DELETE', headers });
    expect(response.headers?.['Set-Cookie']).toContain('Max-Age=0');
    expect((await authenticate(headers)).outcome).toBe('rejected');
  });
  it.each([
    ['another key of the page', { 'x-oarlock-console': 'o'.repeat(43) }],
    ['the former constant in the place of the key', { 'x-oarlock-console': '1' }],
    ['its id in the place of the key', { 'x-oarlock-console': '' }],
  ])('is not that of a cookie with %s', async (_, headers) => {
    const session = await signedIn();
    expect((await authenticate({ ...session, ...headers })).outcome).not.toBe('authenticated');
    expect((await authenticate(session)).outcome).toBe('authenticated');
  });
  it('authenticates a WebSocket by the key in a subprotocol', async () => {
    const { cookie } = await signedIn();
    const webSocket = { host: own.host, origin: own.origin, upgrade: 'websocket', cookie };
    const outcome = async (protocol: string) => (await authenticate({ ...webSocket, 'sec-websocket-protocol': protocol })).outcome;
    expect(await outcome(`v5.channel.k8s.io, key.console.oarlock.dev.${key}`)).toBe('authenticated');
    for (const other of ['v5.channel.k8s.io', `key.console.oarlock.dev.${'o'.repeat(43)}`, `${key}`, ''])
      expect(await outcome(other)).not.toBe('authenticated');
  });
  it('ends when the token that began it is no longer accepted', async () => {
    const response = await signIn({ identity: ada, bearerToken: 'token' });
    const headers = { ...own, cookie: cookieOf(response) };
    expect(await authenticate(headers)).toMatchObject({ outcome: 'authenticated', identity: ada });
    decision = () => rejected('the service account of the token does not exist');
    expect((await authenticate(headers)).outcome).toBe('rejected');
    decision = () => authenticated(ada);
    expect((await authenticate(headers)).outcome).toBe('rejected');
  });
  it('of a link ends with the credentials that created the link', async () => {
    const created = await request({ path: '/console/links', method: 'POST', identity: ada, bearerToken: 'token' });
    const link = (created.body as { readonly url: string }).url.split('/').at(-1) ?? '';
    const headers = { ...own, cookie: cookieOf(await signIn({ body: { link } })) };
    expect((await authenticate(headers)).outcome).toBe('authenticated');
    decision = () => authenticated({ ...ada, uid: 'another account of the same name' });
    expect((await authenticate(headers, '/console/session')).outcome).toBe('abstained');
    expect((await authenticate(headers)).outcome).toBe('rejected');
  });
  it('has the groups that its user has now', async () => {
    const headers = { ...own, cookie: cookieOf(await signIn({ identity: ada, bearerToken: 'token' })) };
    decision = () => authenticated({ ...ada, groups: ['other'] });
    expect(await authenticate(headers)).toMatchObject({ identity: { groups: ['other'] } });
  });
  it('outlives a failure of an authenticator', async () => {
    const headers = { ...own, cookie: cookieOf(await signIn({ identity: ada, bearerToken: 'token' })) };
    decision = () => Promise.reject(new Error('the webhook is not available'));
    await expect(authenticate(headers)).rejects.toThrow('not available');
    decision = () => authenticated(ada);
    expect((await authenticate(headers)).outcome).toBe('authenticated');
  });
  it('cannot extend itself: it creates no links and no further sessions', async () => {
    const headers = await signedIn();
    expect(await request({ path: '/console/links', method: 'POST', headers, identity: ada })).toMatchObject({ code: 403 });
    expect(await signIn({ headers, identity: ada })).toMatchObject({ code: 401 });
  });
});

describe('a sign-in link', () => {
  it('is not created for anonymous or impersonated users', async () => {
    const path = '/console/links';
    expect(await request({ path, method: 'POST' })).toMatchObject({ code: 403 });
    const headers = { host: own.host, 'impersonate-user': 'ada' };
    expect(await request({ path, method: 'POST', headers, identity: ada })).toMatchObject({ code: 403 });
  });
});

describe('a file of the page', () => {
  it('is sent with a policy that allows no inline scripts or styles, and no framing', async () => {
    const { headers = {}, body } = await request({ path: '/console/', headers: { host: own.host } });
    const policy = headers['Content-Security-Policy'] ?? '';
    expect(String(body)).toBe('<!doctype html>');
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("frame-ancestors 'none'");
    expect(policy).not.toMatch(/unsafe|\*|https?:/);
    expect(headers).toMatchObject({ 'X-Content-Type-Options': 'nosniff', 'X-Frame-Options': 'DENY', 'Referrer-Policy': 'no-referrer' });
  });
  it('is cached only if its name has a hash', async () => {
    expect(await request({ path: '/console/' })).toMatchObject({ cacheControl: 'no-cache' });
    expect(await request({ path: '/console/main-ABCDEFGH.js' })).toMatchObject({ cacheControl: expect.stringContaining('immutable') });
  });
  it('is sent compressed to clients that accept gzip', async () => {
    const { headers, body } = await request({ path: '/console/main-ABCDEFGH.js', headers: { ...own, 'accept-encoding': 'br, gzip' } });
    expect(headers).toMatchObject({ 'Content-Encoding': 'gzip' });
    expect(body).toEqual(gzipSync('export {};'));
  });
  it.each([
    '../package.json',
    '..%2fpackage.json',
    'secret.txt',
    'notes.md',
    'index.html.gz',
    '/etc/passwd',
    '__proto__',
    'constructor',
    'a/../index.html',
  ])('is not found at %s', async (name) => {
    expect(await request({ path: `/console/${name}` })).toMatchObject({ code: 404 });
  });
  it('is not read before the first request', async () => {
    let opened = 0;
    const files = new PageFiles(() => {
      opened += 1;
      return folder;
    });
    expect(opened).toBe(0);
    await files.find('');
    await files.find('');
    expect(opened).toBe(1);
  });
});
