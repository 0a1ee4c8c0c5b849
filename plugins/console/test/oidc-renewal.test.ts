import { abstained, authenticated, rejected, type Authenticator } from '@oarlock/spi/authn';
import { describe, expect, it } from 'vitest';
import { GrantRejected, type Tokens } from '../src/oidc-provider.ts';
import { bearerCredentials, OidcRenewal } from '../src/oidc-renewal.ts';
import { SessionAuthenticator } from '../src/session-authenticator.ts';
import { SessionTable } from '../src/session-table.ts';

const ada = { name: 'oidc:ada', groups: ['team'] };
const key = 'k'.repeat(43);
const cookie = 'c'.repeat(43);
const headers = { host: 'c:6443', 'x-oarlock-console': key, cookie: `__Host-oarlock-session-6443=${cookie}` };

const tokenOf = (claims: object): string =>
  `h.${Buffer.from(JSON.stringify({ iss: 'https://login', sub: 'ada', aud: 'console', ...claims })).toString('base64url')}.s`;
const expiringAt = (seconds: number, more = {}): string => tokenOf({ exp: seconds, ...more });

interface Answer {
  readonly promise: Promise<Tokens>;
  readonly resolve: (tokens: Tokens) => void;
  readonly reject: (error: Error) => void;
}

function answerLater(): Answer {
  let [resolve, reject]: [Answer['resolve'], Answer['reject']] = [() => undefined, () => undefined];
  const promise = new Promise<Tokens>((...settle) => {
    [resolve, reject] = settle;
  });
  return { promise, resolve, reject };
}

/** A session with an ID token that ends at second 300, and a provider that answers as the test specifies. */
function open() {
  const clock = { time: 0, now: () => clock.time };
  const refreshed: string[] = [];
  const answers: Answer[] = [];
  const warnings: unknown[] = [];
  const revoked: string[] = [];
  let revocation = async (): Promise<void> => undefined;
  const provider = {
    revoke: (token: string) => {
      revoked.push(token);
      return revocation();
    },
    refresh: (token: string) => {
      refreshed.push(token);
      const answer = answerLater();
      answers.push(answer);
      return answer.promise;
    },
  };
  const first = expiringAt(300);
  const log = { warn: (message: unknown) => warnings.push(message) };
  const renewal = new OidcRenewal({ provider, clientID: 'console', clock, log }, { idToken: first, refreshToken: 'r1' });
  const sessions = new SessionTable({ idleMs: 3_600_000, lifetimeMs: 43_200_000, maxSessions: 4, maxSessionsPerUser: 2, clock });
  sessions.create({ identity: ada, credentials: bearerCredentials(first), renewal, notAfter: Infinity }, 'oidc', `${cookie}.${key}`);
  const authenticator = new SessionAuthenticator(sessions);
  const composition: Authenticator = {
    authenticate: ({ bearerToken }) => {
      if (bearerToken === undefined) return abstained;
      const { exp } = JSON.parse(Buffer.from(bearerToken.split('.')[1] ?? '', 'base64url').toString('utf8')) as { readonly exp: number };
      return exp * 1000 > clock.time ? authenticated(ada) : rejected('the token has expired');
    },
  };
  const request = async (seconds: number) => {
    clock.time = seconds * 1000;
    return (await authenticator.authenticate({ headers, path: '/api' }, composition)).outcome;
  };
  return {
    ...{ request, refreshed, answers, warnings, sessions, revoked },
    signOut: () => sessions.end(`${cookie}.${key}`)?.renewal?.end(),
    failRevocation: () => {
      revocation = async () => {
        throw new Error('no connection');
      };
    },
  };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

describe('a session with a refresh token', () => {
  it('is renewed once before the ID token expires, without a wait, and next with the newest refresh token', async () => {
    const { request, refreshed, answers } = open();
    expect(await request(269)).toBe('authenticated');
    expect(refreshed).toEqual([]);
    expect([await request(270), await request(299)]).toEqual(['authenticated', 'authenticated']);
    expect(refreshed).toEqual(['r1']);
    answers[0]?.resolve({ idToken: expiringAt(600), refreshToken: 'r2' });
    await turn();
    expect([await request(301), await request(569)]).toEqual(['authenticated', 'authenticated']);
    expect(refreshed).toEqual(['r1']);
    expect(await request(570)).toBe('authenticated');
    expect(refreshed).toEqual(['r1', 'r2']);
  });

  it('waits for the renewal after the ID token has expired', async () => {
    const { request, refreshed, answers } = open();
    const requests = Promise.all([request(400), request(400)]);
    await turn();
    expect(refreshed).toEqual(['r1']);
    answers[0]?.resolve({ idToken: expiringAt(700) });
    expect(await requests).toEqual(['authenticated', 'authenticated']);
    const later = request(701);
    await turn();
    expect(refreshed).toEqual(['r1', 'r1']);
    answers[1]?.resolve({ idToken: expiringAt(1000) });
    expect(await later).toBe('authenticated');
  });

  it.each<[string, (answer: Answer) => void]>([
    ['rejects the refresh token', (answer) => answer.reject(new GrantRejected('invalid_grant'))],
    ['answers for another user', (answer) => answer.resolve({ idToken: expiringAt(600, { sub: 'bob' }) })],
    ['answers for another issuer', (answer) => answer.resolve({ idToken: expiringAt(600, { iss: 'https://other' }) })],
    ['answers for another client', (answer) => answer.resolve({ idToken: expiringAt(600, { aud: 'kubectl' }) })],
  ])('ends with the ID token if the provider %s', async (_, answer) => {
    const { request, refreshed, answers, sessions } = open();
    await request(280);
    if (answers[0] !== undefined) answer(answers[0]);
    await turn();
    expect(await request(299)).toBe('authenticated');
    expect(await request(300)).toBe('rejected');
    expect([refreshed, sessions.size]).toEqual([['r1'], 0]);
  });

  it('continues when the provider is available again: until then requests fail, with one request to the provider in five seconds', async () => {
    const { request, refreshed, answers, warnings } = open();
    const failed = request(301);
    await turn();
    answers[0]?.reject(new Error('connect ECONNREFUSED'));
    await expect(failed).rejects.toThrow('ECONNREFUSED');
    await expect(request(305)).rejects.toThrow('ECONNREFUSED');
    expect([refreshed.length, warnings.length]).toEqual([1, 1]);
    const renewed = request(306);
    await turn();
    answers[1]?.resolve({ idToken: expiringAt(600) });
    expect(await renewed).toBe('authenticated');
  });
});

describe('the end of a session with a refresh token', () => {
  it('revokes the refresh token once', async () => {
    const { request, signOut, revoked } = open();
    await signOut();
    await signOut();
    expect([revoked, await request(1)]).toEqual([['r1'], 'rejected']);
  });

  it('revokes the token that a running renewal returns, and does not renew it again', async () => {
    const { request, signOut, answers, refreshed, revoked } = open();
    await request(270);
    const ended = signOut();
    expect([await request(271), revoked]).toEqual(['rejected', []]);
    answers[0]?.resolve({ idToken: expiringAt(600), refreshToken: 'r2' });
    await ended;
    expect([refreshed, revoked]).toEqual([['r1'], ['r2']]);
  });

  it('revokes the last token if the running renewal fails, and not one that the provider rejected', async () => {
    const failed = open();
    await failed.request(270);
    const ended = failed.signOut();
    failed.answers[0]?.reject(new Error('no connection'));
    await ended;
    expect(failed.revoked).toEqual(['r1']);
    const withoutToken = open();
    await withoutToken.request(270);
    const endOfRejection = withoutToken.signOut();
    withoutToken.answers[0]?.reject(new GrantRejected('invalid_grant'));
    await endOfRejection;
    expect(withoutToken.revoked).toEqual([]);
  });

  it('is not delayed and not prevented by a provider that fails', async () => {
    const { request, signOut, failRevocation, warnings } = open();
    failRevocation();
    const ended = signOut();
    expect(await request(1)).toBe('rejected');
    await ended;
    expect(warnings).toEqual([{ err: new Error('no connection') }]);
  });
});
