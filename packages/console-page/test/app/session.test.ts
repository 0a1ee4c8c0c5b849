import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { ApiClient } from '../../src/api/client.ts';
import { signInBy } from '../../src/app/session.ts';

const key = 'k'.repeat(43);
const user = { name: 'ada', groups: [], expiresAt: 0 };
let sent: string[];
const client = new ApiClient(
  async (path, { method = 'GET', body } = {}) => {
    sent.push(`${method} ${String(path)} ${String(body)}`);
    return Response.json({ user: { ...user, name: 'eve' } });
  },
  () => key,
);

beforeEach(() => {
  sent = [];
  const storage = { getItem: () => null, setItem: () => {}, removeItem: () => {} };
  vi.stubGlobal('localStorage', storage);
  vi.stubGlobal('sessionStorage', storage);
});
afterEach(() => vi.unstubAllGlobals());

it('a link signs in', async () => {
  expect(await signInBy(client, { link: 'a' }, {})).toMatchObject({ user: { name: 'eve' } });
  expect(sent).toEqual(['POST /console/session {"link":"a"}']);
});

it('a link does not replace the session of a user', async () => {
  await expect(signInBy(client, { link: 'a' }, { user })).rejects.toThrow('You are signed in as ada. Sign out first to use a link.');
  expect(sent).toEqual([]);
});

it('a response of an OIDC provider replaces a session, since only the page that began the sign-in can send it', async () => {
  expect(await signInBy(client, { code: 'c', state: 's' }, { user })).toMatchObject({ user: { name: 'eve' } });
});

it('an error of an OIDC provider sends nothing', async () => {
  await expect(signInBy(client, { error: 'access_denied' }, {})).rejects.toThrow('access_denied');
  expect(sent).toEqual([]);
});
