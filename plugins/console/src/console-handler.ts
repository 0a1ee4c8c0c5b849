import { failure } from '@oarlock/api/status';
import { errorText } from '@oarlock/primitives/error-text';
import type { Logger } from '@oarlock/primitives/logger';
import { anonymous, type Credentials, type Identity } from '@oarlock/spi/authn';
import type { PathAuthenticator, PathHandler, PathRequest, PathResponse } from '@oarlock/spi/paths';
import { z } from 'zod';
import { credentialsEnd } from './credentials-end.ts';
import type { MetricsHistory } from './metrics-history.ts';
import type { OidcSignIn, OidcUser } from './oidc-sign-in.ts';
import { consoleHeader, isFromOwnPage, sessionCookie, sessionSecret, sessionSecretOf } from './own-page.ts';
import { expandFile, type PageFile, type PageFiles } from './page-files.ts';
import { newSecret, type SessionTable, type SessionUser, type SignInMethod } from './session-table.ts';
import type { SignInLinks } from './sign-in-links.ts';

export interface ConsoleHandlerOptions {
  readonly sessions: SessionTable;
  readonly links: SignInLinks;
  readonly files: Pick<PageFiles, 'find'>;
  readonly authenticator: PathAuthenticator;
  readonly cluster: { readonly name: string; readonly version: string; readonly url: string };
  /** `link`: users sign in with a link only. */
  readonly signIn: 'any' | 'link';
  /** Absent if users do not sign in at an OIDC provider. */
  readonly oidc?: Pick<OidcSignIn, 'name' | 'logoutUrl' | 'begin' | 'finish' | 'close'>;
  /** Absent if the process has no API server to sample. */
  readonly history?: Pick<MetricsHistory, 'for' | 'stop'>;
  readonly log: Logger;
}

const signInBody = z
  .union([z.strictObject({ link: z.string().max(128) }), z.strictObject({ code: z.string().min(1).max(4096), state: z.string().max(256) })])
  .optional();

/** Headers of every response of the console. */
const securityHeaders: Readonly<Record<string, string>> = {
  'Content-Security-Policy': [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' data:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
  ].join('; '),
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Permissions-Policy': 'camera=(), geolocation=(), microphone=()',
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
  'X-Frame-Options': 'DENY',
};

/** Serves the files of the page, and the paths at which users sign in and out. */
export class ConsoleHandler implements PathHandler {
  readonly path = '/console/*';
  readonly methods = ['GET', 'POST', 'DELETE'] as const;
  readonly isPublic = true;
  readonly authenticator: PathAuthenticator;
  readonly #options: ConsoleHandlerOptions;

  constructor(options: ConsoleHandlerOptions) {
    this.#options = options;
    this.authenticator = options.authenticator;
  }

  async stop(): Promise<void> {
    this.#options.oidc?.close();
    this.#options.history?.stop();
  }

  async handle(request: PathRequest): Promise<PathResponse> {
    const { method } = request;
    const name = request.path.slice('/console/'.length);
    const response = await this.#responseTo(method, name, request);
    return { cacheControl: 'no-store', ...response, headers: { ...securityHeaders, ...response.headers } };
  }

  async #responseTo(method: string, name: string, request: PathRequest): Promise<PathResponse> {
    if (name === 'session' || (name === 'oidc' && method === 'POST') || (name === 'history' && method === 'GET')) {
      if (request.credentials === undefined || !isFromOwnPage(request.credentials.headers))
        return rejection(
          'Forbidden',
          `requests of the console have the header ${consoleHeader} with the key of the page, and come from its own page`,
        );
      if (name === 'oidc') return this.#beginOidc(request.credentials);
      if (name === 'history') return this.#history(request.identity);
      if (method === 'GET') return this.#session(request.identity, request.credentials);
      return method === 'POST' ? this.#signIn(request, request.credentials) : this.#signOut(request.credentials);
    }
    if (name === 'links' && method === 'POST') return this.#createLink(request);
    return method === 'GET'
      ? this.#file(name, request.credentials)
      : rejection('MethodNotAllowed', 'the server does not allow this method');
  }

  async #file(name: string, credentials: Credentials | undefined): Promise<PathResponse> {
    const file = await this.#options.files.find(name);
    if (file === undefined) return rejection('NotFound', 'the server could not find the requested resource');
    const accepted = credentials?.headers['accept-encoding'];
    const isGzip = typeof accepted === 'string' && /\bgzip\b/.test(accepted);
    return {
      code: 200,
      contentType: file.contentType,
      body: isGzip ? file.compressed : await expandFile(file),
      cacheControl: cacheControlOf(file),
      headers: { Vary: 'Accept-Encoding', ...(isGzip && { 'Content-Encoding': 'gzip' }) },
    };
  }

  /** Returns the user of the request, as the page shows it. */
  #session({ name, groups }: Identity, { headers }: Credentials): PathResponse {
    const { cluster, sessions, signIn, oidc } = this.#options;
    const secret = sessionSecretOf(headers);
    const session = secret === undefined ? undefined : sessions.use(secret);
    const user = session === undefined ? undefined : { name, groups, expiresAt: session.expiresAt };
    return { code: 200, body: { cluster, signIn, ...(oidc && { oidc: { name: oidc.name } }), ...(user && { user }) } };
  }

  async #history(identity: Identity): Promise<PathResponse> {
    const { history } = this.#options;
    if (history === undefined) return rejection('NotFound', 'this console keeps no history of metrics');
    return { code: 200, body: await history.for(identity) };
  }

  /** Returns the URL at which the user signs in at the OIDC provider. */
  async #beginOidc({ headers }: Credentials): Promise<PathResponse> {
    const { oidc } = this.#options;
    if (oidc === undefined) return rejection('NotFound', 'no OIDC provider is configured for this console');
    try {
      return { code: 200, body: { url: await oidc.begin(headers) } };
    } catch (error) {
      return this.#providerFailed(error);
    }
  }

  async #finishOidc(response: { readonly code: string; readonly state: string }, credentials: Credentials): Promise<PathResponse> {
    const { oidc } = this.#options;
    if (oidc === undefined) return rejection('NotFound', 'no OIDC provider is configured for this console');
    try {
      const user = await oidc.finish(response, credentials.headers);
      if (typeof user === 'string') return rejection('Unauthorized', user);
      return this.#beginSession(oidcUserOf(user), 'oidc', credentials.headers);
    } catch (error) {
      return this.#providerFailed(error);
    }
  }

  #providerFailed(error: unknown): PathResponse {
    this.#options.log.warn({ err: error }, 'a user could not sign in to the console at the OIDC provider');
    return rejection('ServiceUnavailable', `the OIDC provider is not available: ${errorText(error)}`);
  }

  /** Begins a session: of the user of a sign-in link, of the user of an OIDC provider, or of the user whose credentials the request has. */
  async #signIn({ body, identity }: PathRequest, credentials: Credentials): Promise<PathResponse> {
    const { sessions, links, signIn } = this.#options;
    const parsed = signInBody.safeParse(body);
    if (!parsed.success) return rejection('BadRequest', z.prettifyError(parsed.error));
    const { data } = parsed;
    if (isImpersonated(credentials))
      return rejection('Forbidden', 'an impersonated user cannot sign in to the console: sign in as yourself, and impersonate there');
    if (data !== undefined && 'code' in data) return this.#finishOidc(data, credentials);
    if (data !== undefined) {
      const user = links.redeem(data.link);
      if (user !== undefined) return this.#beginSession(user, 'link', credentials.headers);
      return rejection('Unauthorized', 'the sign-in link is invalid, used or expired: `oarlock console` prints another');
    }
    if (signIn === 'link') return rejection('Forbidden', 'this console accepts sign-in links only: `oarlock console` prints one');
    if (identity.name === anonymous.name || isSession(credentials, sessions))
      return rejection('Unauthorized', 'the request has no credentials');
    return this.#beginSession(userOf(identity, credentials), 'credentials', credentials.headers);
  }

  #beginSession(user: SessionUser, method: SignInMethod, headers: Credentials['headers']): PathResponse {
    const cookie = newSecret();
    const session = this.#options.sessions.create(user, method, sessionSecret(cookie, headers));
    if (session === undefined) return rejection('TooManyRequests', 'the console has too many sessions: sign out of others');
    const { id, expiresAt } = session;
    const { name, groups } = session.identity;
    this.#options.log.info({ user: name, session: id, method }, 'a user signed in to the console');
    return {
      code: 201,
      body: { user: { name, groups, expiresAt } },
      headers: { 'Set-Cookie': `${sessionCookie(headers)}=${cookie}; Path=/; Secure; HttpOnly; SameSite=Strict` },
    };
  }

  /** Ends the session. The response does not wait for the provider. */
  #signOut({ headers }: Credentials): PathResponse {
    const { sessions, oidc } = this.#options;
    const secret = sessionSecretOf(headers);
    const session = secret === undefined ? undefined : sessions.end(secret);
    void session?.renewal?.end();
    const logoutUrl = session?.method === 'oidc' ? oidc?.logoutUrl : undefined;
    return {
      code: 200,
      body: logoutUrl === undefined ? {} : { logoutUrl },
      headers: {
        'Set-Cookie': `${sessionCookie(headers)}=; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=0`,
        'Clear-Site-Data': '"cache", "storage"',
      },
    };
  }

  /**
   * Creates a link that signs in as the user of the request. Sessions cannot create links, because links would extend them; impersonated users cannot
   * (`isImpersonated`).
   */
  #createLink({ identity, credentials }: PathRequest): PathResponse {
    const { links, sessions, cluster, log } = this.#options;
    const isOwn = credentials === undefined || !(isImpersonated(credentials) || isSession(credentials, sessions));
    if (identity.name === anonymous.name || !isOwn)
      return rejection('Forbidden', 'a sign-in link requires own credentials, such as a client certificate or a token');
    const { secret, expiresAt } = links.create(userOf(identity, credentials));
    log.info({ user: identity.name }, 'a sign-in link of the console was created');
    // browsers do not send the fragment of a URL, so that no log or proxy records the secret
    return { code: 201, body: { url: `${cluster.url}/console/#/sign-in/${secret}`, expiresAt } };
  }
}

const userOf = (identity: Identity, credentials: Credentials | undefined): SessionUser =>
  credentials === undefined ? { identity, notAfter: Infinity } : { identity, credentials, notAfter: credentialsEnd(credentials) };

/** A session whose credentials are renewed does not end with them. */
const oidcUserOf = ({ identity, credentials, renewal }: OidcUser): SessionUser =>
  renewal === undefined ? userOf(identity, credentials) : { identity, credentials, renewal, notAfter: Infinity };

const isSession = ({ headers }: Credentials, sessions: SessionTable): boolean => {
  const secret = sessionSecretOf(headers);
  return secret !== undefined && sessions.use(secret) !== undefined;
};

/**
 * Returns true if the user of a request is impersonated. Such a user gets no session: constrained impersonation allows single requests, and audit events
 * of the session would not name the impersonator.
 */
const isImpersonated = ({ headers }: Credentials): boolean => Object.keys(headers).some((header) => header.startsWith('impersonate-'));

const cacheControlOf = ({ isImmutable }: PageFile): string => (isImmutable ? 'public, max-age=31536000, immutable' : 'no-cache');

function rejection(reason: Parameters<typeof failure>[0], message: string): PathResponse {
  const { status } = failure(reason, message);
  return { code: status.code ?? 500, body: status };
}
