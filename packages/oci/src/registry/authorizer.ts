import type { Clock } from '@oarlock/primitives/clock';
import { OciError } from '../oci-error.ts';
import { parseChallenges, type Challenge } from './challenge.ts';
import type { Credentials } from './credentials.ts';
import type { RegistryHost } from './host-config.ts';
import { readBody, type HttpClient, type HttpResponse } from './http-client.ts';
import { parseUrl } from './parse-url.ts';

const maxTokenAnswer = 1024 * 1024;
const tokenAnswerMs = 30_000;
/** Validity of a token without the field expires_in, in seconds (distribution, token specification). */
const defaultValiditySeconds = 60;

export interface AuthorizerOptions {
  readonly client: HttpClient;
  readonly clock: Clock;
  readonly host: RegistryHost;
  readonly credentials: Credentials | undefined;
  /** Path of the repository to pull from. */
  readonly repository: string;
}

interface TokenScope {
  readonly service: string;
  readonly scope: string;
}

const denied = (reason: string) =>
  new OciError('Unauthorized', `pull access denied, repository does not exist or may require authorization: ${reason}`);

/** Authorizes the requests of one pull to one host, with Basic or with tokens of the registry's token server. */
export class Authorizer {
  readonly #options: AuthorizerOptions;
  #header: { readonly value: string; readonly expires: number } | undefined;

  constructor(options: AuthorizerOptions) {
    this.#options = options;
    const token = options.credentials?.registryToken ?? '';
    if (token !== '') this.#header = { value: `Bearer ${token}`, expires: Number.POSITIVE_INFINITY };
  }

  /** Returns the Authorization header for the next request; undefined before the registry has requested one. */
  header(): string | undefined {
    const { expires = 0, value } = this.#header ?? {};
    return this.#options.clock.monotonic() < expires ? value : undefined;
  }

  /**
   * Answers a 401 response. The caller repeats the request once.
   * @throws OciError `Unauthorized` if the registry accepts no credentials, `Unavailable` if the token server fails
   */
  async onUnauthorized(response: HttpResponse, signal: AbortSignal): Promise<void> {
    const challenges = parseChallenges([response.headers['www-authenticate'] ?? []].flat().join(', '));
    const bearer = challenges.find(({ scheme }) => scheme === 'bearer');
    if (bearer) {
      this.#header = await this.#token(bearer, signal);
      return;
    }
    const { username = '', password = '' } = this.#options.credentials ?? {};
    if (!challenges.some(({ scheme }) => scheme === 'basic')) throw denied('the registry names no supported authentication scheme');
    if (username === '') throw denied('no basic auth credentials');
    this.#header = { value: basic(username, password), expires: Number.POSITIVE_INFINITY };
  }

  async #token({ parameters }: Challenge, signal: AbortSignal): Promise<{ readonly value: string; readonly expires: number }> {
    const { host, credentials } = this.#options;
    const realm = parseUrl(parameters['realm'] ?? '');
    if (!realm || (realm.protocol !== 'https:' && realm.protocol !== 'http:')) throw denied('the realm of the token server is not a URL');
    if (realm.protocol === 'http:' && !host.baseUrl.startsWith('http:'))
      throw denied('the token server of an https registry must use https');
    const scope = parameters['scope'] ?? `repository:${this.#options.repository}:pull`;
    const service = parameters['service'] ?? '';
    const answer =
      (credentials?.identityToken ?? '') === ''
        ? await this.#get(realm, { service, scope }, signal)
        : await this.#exchange(realm, { service, scope }, signal);
    const text = (await readBody(answer, maxTokenAnswer)).toString('utf8');
    if (answer.status === 401 || answer.status === 403)
      throw denied(`failed to authorize: failed to fetch token: unexpected status: ${answer.status}`);
    if (answer.status !== 200)
      throw new OciError(
        'Unavailable',
        `failed to authorize: failed to fetch token from ${realm.origin}: unexpected status: ${answer.status}`,
      );
    return this.#parse(text, realm);
  }

  #parse(text: string, realm: URL): { readonly value: string; readonly expires: number } {
    let parsed: { readonly token?: unknown; readonly access_token?: unknown; readonly expires_in?: unknown };
    try {
      parsed = JSON.parse(text) as typeof parsed;
    } catch {
      throw new OciError('Unavailable', `failed to authorize: the answer of ${realm.origin} is not JSON`);
    }
    const token = [parsed.token, parsed.access_token].find((each) => typeof each === 'string' && /^[\x21-\x7e]+$/.test(each));
    if (token === undefined) throw new OciError('Unavailable', `failed to authorize: the answer of ${realm.origin} has no token`);
    const seconds = typeof parsed.expires_in === 'number' && parsed.expires_in > 0 ? parsed.expires_in : defaultValiditySeconds;
    // a token that expires during the request would fail
    return { value: `Bearer ${String(token)}`, expires: this.#options.clock.monotonic() + Math.max(seconds * 0.9, 1) * 1000 };
  }

  #get(realm: URL, { service, scope }: TokenScope, signal: AbortSignal): Promise<HttpResponse> {
    const { username = '', password = '' } = this.#options.credentials ?? {};
    const url = new URL(realm);
    if (service !== '') url.searchParams.set('service', service);
    for (const each of scope.split(' ')) url.searchParams.append('scope', each);
    if (username !== '') url.searchParams.set('account', username);
    return this.#send(url, { method: 'GET', headers: username === '' ? {} : { authorization: basic(username, password) } }, signal);
  }

  /** Exchanges an identity token for an access token (OAuth 2, refresh_token grant). */
  #exchange(realm: URL, { service, scope }: TokenScope, signal: AbortSignal): Promise<HttpResponse> {
    const body = new URLSearchParams({
      grant_type: 'refresh_token',
      refresh_token: this.#options.credentials?.identityToken ?? '',
      service,
      scope,
      client_id: 'oarlock',
    });
    return this.#send(realm, { method: 'POST', headers: { 'content-type': 'application/x-www-form-urlencoded' }, body: `${body}` }, signal);
  }

  #send(
    url: URL,
    request: { readonly method: 'GET' | 'POST'; readonly headers: Readonly<Record<string, string>>; readonly body?: string },
    signal: AbortSignal,
  ): Promise<HttpResponse> {
    const { client, host } = this.#options;
    // the CA of the registry applies to its token server; its client certificate does not
    const tls = { ...host.tls, certificates: url.origin === new URL(host.baseUrl).origin ? host.tls.certificates : [] };
    return client.send({ url, ...request, tls, dialTimeoutMs: host.dialTimeoutMs, bodyTimeoutMs: tokenAnswerMs, signal });
  }
}

const basic = (username: string, password: string): string => `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`;
