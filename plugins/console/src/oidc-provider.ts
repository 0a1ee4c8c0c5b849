import { readFileSync } from 'node:fs';
import { isObject } from '@oarlock/api/json/json';
import type { Clock } from '@oarlock/primitives/clock';
import { isSafeUrl } from '@oarlock/webhook-client/endpoint-config';
import type { JsonClient, JsonResponse } from '@oarlock/webhook-client/json-client';
import { z } from 'zod';

export const oidcConfig = z.strictObject({
  /** The URL of the issuer, as in the claim `iss` and in the configuration of `authn-oidc`. */
  issuerURL: z.string().refine(isSafeUrl, 'an https:// URL'),
  /** The client that is registered at the provider with the redirect URI `https://HOST:PORT/console/`. */
  clientID: z.string().min(1),
  /** The path of a file with the secret of a confidential client. */
  clientSecretFile: z.string().min(1).optional(),
  /** The path of a PEM file with the CA certificates of the provider. */
  certificateAuthorityFile: z.string().min(1).optional(),
  scopes: z.array(z.string().regex(/^[\x21\x23-\x5b\x5d-\x7e]+$/, 'a scope of RFC 6749')).default(['openid', 'profile', 'email']),
  timeoutSeconds: z.number().positive().max(60).default(10),
});
export type OidcConfig = z.output<typeof oidcConfig>;

/** How long the endpoints of the discovery document are kept. Milliseconds. */
const endpointsMs = 600_000;

/** An endpoint at which the client authenticates. */
interface ClientEndpoint {
  readonly url: string;
  /** How the client authenticates; a provider that does not state it supports `client_secret_basic` (OpenID Connect Discovery 1.0, section 3). */
  readonly usesBasic: boolean;
}
interface Endpoints {
  readonly authorization: string;
  readonly token: ClientEndpoint;
  /** RFC 7009; absent if the provider has none. */
  readonly revocation?: ClientEndpoint;
  /** OpenID Connect RP-Initiated Logout 1.0; absent if the provider has none. */
  readonly endSession?: string;
}
interface ClientForm {
  readonly form: Readonly<Record<string, string>>;
  readonly authorization?: string;
}

/** The provider rejected a code or a refresh token. The message is the error code of RFC 6749, section 5.2. */
export class GrantRejected extends Error {
  constructor(code: string) {
    super(code);
    this.name = 'GrantRejected';
  }
}

export interface Tokens {
  /** Not verified. */
  readonly idToken: string;
  /** Absent if the provider issues none for this client and these scopes. */
  readonly refreshToken?: string;
}

export interface CodeExchange {
  readonly code: string;
  readonly redirectUri: string;
  readonly verifier: string;
}

/** What binds an authorization request to its redirect: RFC 7636 and OpenID Connect Core 1.0, section 3.1.2.1. */
export interface AuthorizationRequest {
  readonly redirectUri: string;
  readonly state: string;
  readonly nonce: string;
  /** The code challenge of the method S256. */
  readonly challenge: string;
}

export interface OidcProviderOptions {
  readonly config: OidcConfig;
  readonly client: Pick<JsonClient, 'get' | 'postForm' | 'sendForm'>;
  readonly clock: Pick<Clock, 'monotonic'>;
}

/** An OpenID Connect provider, with the endpoints of its discovery document. */
export class OidcProvider {
  readonly #options: OidcProviderOptions;
  readonly #timeoutMs: number;
  readonly #secret: string | undefined;
  #endpoints: { readonly value: Promise<Endpoints>; readonly fetchedAt: number } | undefined;
  #logoutUrl: string | undefined;

  /** @throws Error if the file of the client secret cannot be read */
  constructor(options: OidcProviderOptions) {
    const { clientSecretFile, timeoutSeconds } = options.config;
    this.#options = options;
    this.#timeoutMs = timeoutSeconds * 1000;
    this.#secret = clientSecretFile === undefined ? undefined : readFileSync(clientSecretFile, 'utf8').trim();
  }

  /**
   * The URL at which the user can sign out at the provider; undefined if the latest discovery document has none. Names the client alone: an ID token as
   * hint would stand in the history of the browser.
   */
  get logoutUrl(): string | undefined {
    return this.#logoutUrl;
  }

  /** Returns the URL at which the user signs in at the provider. @throws Error if the discovery document is not available */
  async authorizationUrl({ redirectUri, state, nonce, challenge }: AuthorizationRequest): Promise<string> {
    const { clientID, scopes } = this.#options.config;
    const url = new URL((await this.#discover()).authorization);
    const parameters = {
      response_type: 'code',
      client_id: clientID,
      redirect_uri: redirectUri,
      scope: [...new Set(['openid', ...scopes])].join(' '),
      state,
      nonce,
      code_challenge: challenge,
      code_challenge_method: 'S256',
    };
    for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
    return url.href;
  }

  /** Exchanges a code. @throws GrantRejected if the code is wrong, used or expired; Error if the provider is not available */
  async redeem({ code, redirectUri, verifier }: CodeExchange): Promise<Tokens> {
    const form = { grant_type: 'authorization_code', code, redirect_uri: redirectUri, code_verifier: verifier };
    const response = await this.#requestTokens(form);
    const error = errorCode(response);
    if (response.code === 400 && error === 'invalid_grant') throw new GrantRejected(error);
    const tokens = tokensOf(response);
    if (tokens !== undefined) return tokens;
    throw response.code === 200
      ? new Error(`the token endpoint of ${this.#options.config.issuerURL} returned no ID token`)
      : this.#fault(response);
  }

  /**
   * Exchanges a refresh token.
   * @throws GrantRejected if the provider returns no ID token for it, so that the user has to sign in again; Error if the provider is not available
   */
  async refresh(refreshToken: string): Promise<Tokens> {
    const response = await this.#requestTokens({ grant_type: 'refresh_token', refresh_token: refreshToken });
    const { code } = response;
    if (code >= 500 || code === 408 || code === 429) throw this.#fault(response);
    const tokens = tokensOf(response);
    if (tokens === undefined) throw new GrantRejected(errorCode(response) || 'no_id_token');
    return tokens;
  }

  /** Revokes a refresh token (RFC 7009), if the provider has an endpoint for it. @throws Error if the provider does not confirm it */
  async revoke(refreshToken: string): Promise<void> {
    const { config, client } = this.#options;
    const { revocation } = await this.#discover();
    if (revocation === undefined) return;
    const { form, ...authorization } = this.#authenticated({ token: refreshToken, token_type_hint: 'refresh_token' }, revocation);
    const code = await client.sendForm(revocation.url, form, { timeoutMs: this.#timeoutMs, ...authorization });
    if (code !== 200) throw new Error(`the revocation endpoint of ${config.issuerURL} returned ${code}`);
  }

  #fault(response: JsonResponse): Error {
    return new Error(`the token endpoint of ${this.#options.config.issuerURL} returned ${response.code} ${errorCode(response)}`.trim());
  }

  async #requestTokens(form: Readonly<Record<string, string>>): Promise<JsonResponse> {
    const { token } = await this.#discover();
    const { form: authenticated, ...authorization } = this.#authenticated(form, token);
    return this.#options.client.postForm(token.url, authenticated, { timeoutMs: this.#timeoutMs, ...authorization });
  }

  /** Returns a form with the id and the secret of the client, or with a header that has them (RFC 6749, section 2.3). */
  #authenticated(form: Readonly<Record<string, string>>, { usesBasic }: ClientEndpoint): ClientForm {
    const { clientID } = this.#options.config;
    const secret = this.#secret;
    if (secret !== undefined && usesBasic) return { form, authorization: basicAuthorization(clientID, secret) };
    return { form: { ...form, client_id: clientID, ...(secret !== undefined && { client_secret: secret }) } };
  }

  /** Returns the endpoints. Simultaneous calls share one request; a failure is not kept. */
  #discover(): Promise<Endpoints> {
    const now = this.#options.clock.monotonic();
    if (this.#endpoints !== undefined && now - this.#endpoints.fetchedAt < endpointsMs) return this.#endpoints.value;
    const endpoints = { value: this.#fetchEndpoints(), fetchedAt: now };
    this.#endpoints = endpoints;
    // the caller receives the rejection
    endpoints.value.catch(() => {
      if (this.#endpoints === endpoints) this.#endpoints = undefined;
    });
    return endpoints.value;
  }

  async #fetchEndpoints(): Promise<Endpoints> {
    const { issuerURL } = this.#options.config;
    const url = `${issuerURL.replace(/\/$/, '')}/.well-known/openid-configuration`;
    const { code, body } = await this.#options.client.get(url, this.#timeoutMs);
    if (code !== 200) throw new Error(`${url} returned status ${code}`);
    if (!isObject(body) || body['issuer'] !== issuerURL) throw new Error(`the discovery document of ${issuerURL} names another issuer`);
    const endpoints = endpointsOf(body, issuerURL);
    this.#logoutUrl = endpoints.endSession && logoutUrlOf(endpoints.endSession, this.#options.config.clientID);
    return endpoints;
  }
}

/** Returns the endpoints of a discovery document. @throws Error if one is missing without which users cannot sign in */
function endpointsOf(document: Readonly<Record<string, unknown>>, issuerURL: string): Endpoints {
  const optional = (name: string): string | undefined => {
    const value = document[name];
    const isSafe = typeof value === 'string' && isSafeUrl(value) && (!issuerURL.startsWith('https:') || value.startsWith('https:'));
    return isSafe ? value : undefined;
  };
  const endpoint = (name: string): string => {
    const value = optional(name);
    if (value === undefined) throw new Error(`the discovery document of ${issuerURL} has no ${name} that is an https:// URL`);
    return value;
  };
  const usesBasic = (name: string): boolean => {
    const methods = document[`${name}_auth_methods_supported`];
    return !Array.isArray(methods) || methods.includes('client_secret_basic');
  };
  const revocation = optional('revocation_endpoint');
  const endSession = optional('end_session_endpoint');
  return {
    authorization: endpoint('authorization_endpoint'),
    token: { url: endpoint('token_endpoint'), usesBasic: usesBasic('token_endpoint') },
    ...(revocation !== undefined && { revocation: { url: revocation, usesBasic: usesBasic('revocation_endpoint') } }),
    ...(endSession !== undefined && { endSession }),
  };
}

function logoutUrlOf(endSession: string, clientID: string): string {
  const url = new URL(endSession);
  url.searchParams.set('client_id', clientID);
  return url.href;
}

/** RFC 6749, section 2.3.1: both parts are encoded as in a form. */
function basicAuthorization(id: string, secret: string): string {
  const encode = (text: string) => new URLSearchParams({ '': text }).toString().slice(1);
  return `Basic ${Buffer.from(`${encode(id)}:${encode(secret)}`).toString('base64')}`;
}

/** Returns the tokens of a response; undefined without an ID token. */
function tokensOf({ code, body }: JsonResponse): Tokens | undefined {
  if (code !== 200 || !isObject(body)) return undefined;
  const { id_token: idToken, refresh_token: refreshToken } = body;
  if (typeof idToken !== 'string') return undefined;
  return { idToken, ...(typeof refreshToken === 'string' && refreshToken !== '' && { refreshToken }) };
}

/** Returns the error code of a response, if it has the characters of one. */
function errorCode({ body }: JsonResponse): string {
  const error = isObject(body) ? body['error'] : undefined;
  return typeof error === 'string' && /^[\w-]{1,64}$/.test(error) ? error : '';
}
