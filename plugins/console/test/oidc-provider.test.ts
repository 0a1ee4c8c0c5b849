import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { JsonResponse } from '@oarlock/webhook-client/json-client';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { GrantRejected, OidcProvider, oidcConfig } from '../src/oidc-provider.ts';

const issuer = 'https://login.example/realm';
const discovery = { issuer, authorization_endpoint: `${issuer}/auth?tenant=a`, token_endpoint: `${issuer}/token` };
const request = { redirectUri: 'https://c/console/', state: 's', nonce: 'n', challenge: 'h' };
const exchange = { code: 'c', redirectUri: 'https://c/console/', verifier: 'v' };

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'oarlock-console-'));
});
afterEach(() => rm(folder, { recursive: true }));

function open({
  document = discovery as object,
  token = { code: 200, body: { id_token: 't' } } as JsonResponse,
  revoked = 200,
  config = {},
} = {}) {
  const urls: string[] = [];
  const forms: unknown[] = [];
  const clock = { time: 0, monotonic: () => clock.time };
  let answer: JsonResponse = { code: 200, body: document };
  const client = {
    get: async (url: string) => {
      urls.push(url);
      return answer;
    },
    postForm: async (url: string, form: object, { authorization }: { readonly authorization?: string }) => {
      forms.push([url, form, authorization]);
      return token;
    },
    sendForm: async (url: string, form: object, { authorization }: { readonly authorization?: string }) => {
      forms.push([url, form, authorization]);
      return revoked;
    },
  };
  const provider = new OidcProvider({ config: oidcConfig.parse({ issuerURL: issuer, clientID: 'a b', ...config }), client, clock });
  return {
    ...{ provider, urls, forms, clock },
    fail: (next: JsonResponse) => {
      answer = next;
    },
  };
}

describe('an OIDC provider', () => {
  it('receives the parameters of the code flow with PKCE, in addition to those of its endpoint', async () => {
    const { provider, urls } = open({ config: { scopes: ['groups'] } });
    const url = new URL(await provider.authorizationUrl(request));
    expect(Object.fromEntries(url.searchParams)).toEqual({
      ...{ tenant: 'a', response_type: 'code', client_id: 'a b', redirect_uri: 'https://c/console/', scope: 'openid groups' },
      ...{ state: 's', nonce: 'n', code_challenge: 'h', code_challenge_method: 'S256' },
    });
    expect(urls).toEqual([`${issuer}/.well-known/openid-configuration`]);
  });

  it('receives a request for its endpoints again after ten minutes, and after a failure', async () => {
    const { provider, urls, clock, fail } = open();
    await Promise.all([provider.authorizationUrl(request), provider.authorizationUrl(request)]);
    expect(urls).toHaveLength(1);
    clock.time = 600_000;
    fail({ code: 503, body: {} });
    await expect(provider.authorizationUrl(request)).rejects.toThrow('returned status 503');
    fail({ code: 200, body: discovery });
    await provider.authorizationUrl(request);
    expect(urls).toHaveLength(3);
  });

  it('receives the code of a public client with its id, and that of a confidential one with its secret', async () => {
    const form = { grant_type: 'authorization_code', code: 'c', redirect_uri: 'https://c/console/', code_verifier: 'v' };
    const own = open();
    expect(await own.provider.redeem(exchange)).toEqual({ idToken: 't' });
    expect(own.forms).toEqual([[`${issuer}/token`, { ...form, client_id: 'a b' }, undefined]]);
    const clientSecretFile = join(folder, 'secret');
    await writeFile(clientSecretFile, 'p:w \n');
    const basic = open({ config: { clientSecretFile } });
    await basic.provider.redeem(exchange);
    expect(basic.forms).toEqual([[`${issuer}/token`, form, `Basic ${Buffer.from('a+b:p%3Aw').toString('base64')}`]]);
    const post = open({
      config: { clientSecretFile },
      document: { ...discovery, token_endpoint_auth_methods_supported: ['client_secret_post'] },
    });
    await post.provider.redeem(exchange);
    expect(post.forms).toEqual([[`${issuer}/token`, { ...form, client_id: 'a b', client_secret: 'p:w' }, undefined]]);
  });

  it('revokes a refresh token at its revocation endpoint, as its own method of authentication requires', async () => {
    const form = { token: 'r', token_type_hint: 'refresh_token' };
    const without = open();
    await without.provider.revoke('r');
    expect(without.forms).toEqual([]);
    const document = { ...discovery, revocation_endpoint: `${issuer}/revoke` };
    const own = open({ document });
    await own.provider.revoke('r');
    expect(own.forms).toEqual([[`${issuer}/revoke`, { ...form, client_id: 'a b' }, undefined]]);
    const clientSecretFile = join(folder, 'secret');
    await writeFile(clientSecretFile, 'pw');
    const post = open({
      config: { clientSecretFile },
      document: { ...document, revocation_endpoint_auth_methods_supported: ['client_secret_post'] },
    });
    await post.provider.revoke('r');
    await post.provider.redeem(exchange);
    const basic = `Basic ${Buffer.from('a+b:pw').toString('base64')}`;
    expect(post.forms).toEqual([
      [`${issuer}/revoke`, { ...form, client_id: 'a b', client_secret: 'pw' }, undefined],
      [`${issuer}/token`, expect.not.objectContaining({ client_secret: 'pw' }), basic],
    ]);
    await expect(open({ document, revoked: 503 }).provider.revoke('r')).rejects.toThrow('revocation endpoint');
    const unsafe = open({ document: { ...discovery, revocation_endpoint: 'http://login.example/revoke' } });
    await unsafe.provider.revoke('r');
    expect(unsafe.forms).toEqual([]);
  });

  it('has an address for the logout of the client, without a token', async () => {
    const { provider } = open({ document: { ...discovery, end_session_endpoint: `${issuer}/logout?tenant=a` } });
    expect(provider.logoutUrl).toBeUndefined();
    await provider.authorizationUrl(request);
    expect(provider.logoutUrl).toBe(`${issuer}/logout?tenant=a&client_id=a+b`);
    const unsafe = open({ document: { ...discovery, end_session_endpoint: 'javascript:alert(1)' } });
    await unsafe.provider.authorizationUrl(request);
    expect(unsafe.provider.logoutUrl).toBeUndefined();
  });

  it('receives a refresh token, and issues another with the ID token', async () => {
    const { provider, forms } = open({ token: { code: 200, body: { id_token: 't', refresh_token: 'next' } } });
    expect(await provider.refresh('first')).toEqual({ idToken: 't', refreshToken: 'next' });
    expect(forms).toEqual([[`${issuer}/token`, { grant_type: 'refresh_token', refresh_token: 'first', client_id: 'a b' }, undefined]]);
    const rejecting = (code: number, body: unknown) => open({ token: { code, body } }).provider.refresh('first');
    await expect(rejecting(400, { error: 'invalid_grant' })).rejects.toThrow(GrantRejected);
    await expect(rejecting(401, { error: 'invalid_client' })).rejects.toThrow(GrantRejected);
    await expect(rejecting(200, { access_token: 'a' })).rejects.toThrow(GrantRejected);
    await expect(rejecting(429, {})).rejects.toThrow(`the token endpoint of ${issuer} returned 429`);
    await expect(rejecting(503, {})).rejects.not.toThrow(GrantRejected);
  });

  it('distinguishes a rejected code from a fault of the provider or of the configuration', async () => {
    const rejecting = (code: number, body: unknown) => open({ token: { code, body } }).provider.redeem(exchange);
    await expect(rejecting(400, { error: 'invalid_grant', error_description: 'expired' })).rejects.toThrow(GrantRejected);
    await expect(rejecting(401, { error: 'invalid_client' })).rejects.toThrow(
      `the token endpoint of ${issuer} returned 401 invalid_client`,
    );
    await expect(rejecting(500, { error: '<b>\n' })).rejects.toThrow(/returned 500$/);
    await expect(rejecting(200, { access_token: 'a' })).rejects.toThrow('returned no ID token');
  });

  it.each<[string, object, RegExp]>([
    ['of another issuer', { ...discovery, issuer: 'https://evil.example' }, /names another issuer/],
    ['with an endpoint without TLS', { ...discovery, token_endpoint: 'http://127.0.0.1/token' }, /no token_endpoint that is an https/],
    ['with another scheme', { ...discovery, authorization_endpoint: 'javascript:alert(1)' }, /no authorization_endpoint/],
    ['without endpoints', { issuer }, /no authorization_endpoint/],
  ])('is rejected with a discovery document %s', async (_, document, message) => {
    await expect(open({ document }).provider.authorizationUrl(request)).rejects.toThrow(message);
  });
});
