import { createHash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import type { TLSSocket } from 'node:tls';
import { subjectAccessReviews, tokenReviews } from '@oarlock/api/resources';
import type { Clock } from '@oarlock/primitives/clock';
import type { Client } from '@oarlock/spi/client';
import { HttpError } from './http/http-error.ts';
import { LocalConnection } from './http/local-connection.ts';

/** The authenticated user of a request. */
export interface User {
  readonly name: string;
  readonly uid?: string;
  readonly groups: readonly string[];
  readonly extra?: Readonly<Record<string, readonly string[]>>;
}

export interface KubeletAuthorizerOptions {
  readonly client: Pick<Client, 'create'>;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/** The user name of the API server's kubelet client certificate. */
const apiServer = 'kube-apiserver-kubelet-client';
const masters = 'system:masters';
const ownApiServer: User = { name: apiServer, groups: [masters, 'system:authenticated'] };
/** How long authentications are cached, as upstream; the next constants are the times for allowed and denied requests. Milliseconds. */
const identityMs = 120_000;
const allowedMs = 300_000;
const deniedMs = 30_000;
const maxCacheEntries = 1000;
const maxToken = 64 * 1024;

/** The node subresources that authorize access to a path, most specific first (KEP-2862). */
const subresourceRules: readonly (readonly [path: RegExp, subresources: readonly string[]])[] = [
  [/^\/stats(\/|$)/, ['stats']],
  [/^\/metrics(\/|$)/, ['metrics']],
  [/^\/logs(\/|$)/, ['log']],
  [/^\/checkpoint(\/|$)/, ['checkpoint']],
  [/^\/(pods|runningpods)(\/|$)/, ['pods', 'proxy']],
  [/^\/healthz(\/|$)/, ['healthz', 'proxy']],
  [/^\/configz(\/|$)/, ['configz', 'proxy']],
  [/^/, ['proxy']],
];
const verbs: Readonly<Record<string, string>> = {
  GET: 'get',
  POST: 'create',
  PUT: 'update',
  PATCH: 'patch',
  DELETE: 'delete',
};

/** A cache with a maximum number of entries and a time to live per entry. */
class ExpiringCache<T> {
  readonly #clock: Clock;
  readonly #entries = new Map<string, { readonly value: T; readonly until: number }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }
  get(key: string): T | undefined {
    const found = this.#entries.get(key);
    return found !== undefined && this.#clock.monotonic() < found.until ? found.value : undefined;
  }
  set(key: string, value: T, forMs: number): void {
    this.#entries.delete(key);
    if (this.#entries.size >= maxCacheEntries) this.#entries.delete(this.#entries.keys().next().value ?? '');
    this.#entries.set(key, { value, until: this.#clock.monotonic() + forMs });
  }
}

/**
 * Authenticates and authorizes requests to the kubelet's API with TokenReviews and SubjectAccessReviews. Requests of the API server itself need
 * neither.
 */
export class KubeletAuthorizer {
  readonly #options: KubeletAuthorizerOptions;
  readonly #users: ExpiringCache<User>;
  readonly #decisions: ExpiringCache<boolean>;

  constructor(options: KubeletAuthorizerOptions) {
    this.#options = options;
    this.#users = new ExpiringCache(options.clock);
    this.#decisions = new ExpiringCache(options.clock);
  }

  /**
   * Authenticates and authorizes a request. @throws HttpError 401 if the user is unknown, 403 if the request is denied, 500 if the API server does
   * not answer
   */
  async authorize(request: IncomingMessage, path: string, nodeName: string): Promise<void> {
    const user =
      userOfConnection(request.socket, this.#options.clock.now()) ?? (await this.#authenticateToken(request.headers.authorization));
    if (user === undefined) throw new HttpError(401, 'Unauthorized');
    if (user.groups.includes(masters) || user.name === apiServer) return;
    const verb = verbs[request.method ?? ''] ?? '';
    const [, subresources = []] = subresourceRules.find(([pattern]) => pattern.test(path)) ?? [];
    for (const subresource of subresources) if (await this.#reviewAccess(user, verb, subresource, nodeName)) return;
    throw new HttpError(403, `Forbidden (user=${user.name}, verb=${verb}, resource=nodes, subresource(s)=[${subresources.join(' ')}])`);
  }

  async #authenticateToken(header: string | undefined): Promise<User | undefined> {
    const token = /^Bearer +(\S+)$/i.exec(header ?? '')?.[1];
    if (token === undefined || token.length > maxToken) return undefined;
    const key = createHash('sha256').update(token).digest('base64');
    const known = this.#users.get(key);
    if (known) return known;
    const { client, signal } = this.#options;
    const review = await client.create(
      tokenReviews,
      { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenReview', metadata: {}, spec: { token } },
      { signal },
    );
    const { authenticated, user } = review.status ?? {};
    if (authenticated !== true || user?.username === undefined) return undefined;
    const found: User = {
      name: user.username,
      groups: user.groups ?? [],
      ...(user.uid !== undefined && { uid: user.uid }),
      ...(user.extra && { extra: user.extra }),
    };
    this.#users.set(key, found, identityMs);
    return found;
  }

  async #reviewAccess(user: User, verb: string, subresource: string, nodeName: string): Promise<boolean> {
    const { client, signal } = this.#options;
    const spec = {
      user: user.name,
      groups: user.groups,
      ...(user.uid !== undefined && { uid: user.uid }),
      ...(user.extra && { extra: user.extra }),
      resourceAttributes: { verb, version: 'v1', resource: 'nodes', subresource, name: nodeName },
    };
    const key = JSON.stringify(spec);
    const known = this.#decisions.get(key);
    if (known !== undefined) return known;
    const review = await client.create(
      subjectAccessReviews,
      { apiVersion: 'authorization.k8s.io/v1', kind: 'SubjectAccessReview', metadata: {}, spec },
      { signal },
    );
    const allowed = review.status?.allowed === true;
    this.#decisions.set(key, allowed, allowed ? allowedMs : deniedMs);
    return allowed;
  }
}

/** Returns the user of a connection; undefined without a client certificate. An in-process connection always belongs to the API server. */
function userOfConnection(socket: Duplex, now: number): User | undefined {
  return socket instanceof LocalConnection ? ownApiServer : userOfCertificate(socket as TLSSocket, now);
}

/**
 * Returns the user in a client certificate that the cluster's CA issued; undefined without such a certificate. The handshake checked the validity
 * period, but a connection may outlive the certificate.
 */
function userOfCertificate(socket: TLSSocket, now: number): User | undefined {
  if (!socket.authorized) return undefined;
  const certificate = socket.getPeerCertificate();
  // without a certificate `socket.authorized` has no meaning
  if (Object.keys(certificate).length === 0) return undefined;
  if (now < Date.parse(certificate.valid_from) || now > Date.parse(certificate.valid_to)) return undefined;
  const { CN, O } = certificate.subject;
  const groups: readonly string[] = Array.isArray(O) ? O : O === undefined ? [] : [O];
  return { name: (Array.isArray(CN) ? CN[0] : CN) ?? '', groups: [...groups, 'system:authenticated'] };
}
