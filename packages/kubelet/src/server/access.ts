import { createHash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import type { TLSSocket } from 'node:tls';
import { subjectAccessReviews, tokenReviews } from '@oarlock/api/resources';
import type { Clock } from '@oarlock/kernel/clock';
import type { Client } from '@oarlock/spi/client';
import { HttpProblem } from './http-problem.ts';
import { LocalConnection } from './local-connection.ts';

/** Who asks. */
export interface User {
  readonly name: string;
  readonly uid?: string;
  readonly groups: readonly string[];
  readonly extra?: Readonly<Record<string, readonly string[]>>;
}

export interface AccessOptions {
  readonly client: Pick<Client, 'create'>;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/** The API server's own name towards kubelets. */
const apiServer = 'kube-apiserver-kubelet-client';
const masters = 'system:masters';
const ownApiServer: User = { name: apiServer, groups: [masters, 'system:authenticated'] };
/** How long answers of the API server hold, as upstream's kubelets have it. Milliseconds. */
const identityMs = 120_000;
const allowedMs = 300_000;
const deniedMs = 30_000;
const maxRemembered = 1000;
const maxToken = 64 * 1024;

/** Which of a node's subresources guards a path, finest first (KEP-2862). */
const guards: readonly (readonly [path: RegExp, subresources: readonly string[]])[] = [
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
  HEAD: 'get',
  POST: 'create',
  PUT: 'update',
  PATCH: 'patch',
  DELETE: 'delete',
};

/** Remembers so many answers, each as long as it holds. */
class Answers<T> {
  readonly #clock: Clock;
  readonly #known = new Map<string, { readonly value: T; readonly until: number }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }
  get(key: string): T | undefined {
    const found = this.#known.get(key);
    return found !== undefined && this.#clock.monotonic() < found.until ? found.value : undefined;
  }
  set(key: string, value: T, forMs: number): void {
    this.#known.delete(key);
    if (this.#known.size >= maxRemembered) this.#known.delete(this.#known.keys().next().value ?? '');
    this.#known.set(key, { value, until: this.#clock.monotonic() + forMs });
  }
}

/** Who may use the kubelet's API: whoever the API server knows and lets get at the node's subresources. The API server itself is not asked about. */
export class Access {
  readonly #options: AccessOptions;
  readonly #users: Answers<User>;
  readonly #decisions: Answers<boolean>;

  constructor(options: AccessOptions) {
    this.#options = options;
    this.#users = new Answers(options.clock);
    this.#decisions = new Answers(options.clock);
  }

  /** @throws HttpProblem 401 or 403; 500 when the API server does not answer */
  async check(request: IncomingMessage, path: string, nodeName: string): Promise<void> {
    const user = byConnection(request.socket) ?? (await this.#byToken(request.headers.authorization));
    if (user === undefined) throw new HttpProblem(401, 'Unauthorized');
    if (user.groups.includes(masters) || user.name === apiServer) return;
    const verb = verbs[request.method ?? ''] ?? '';
    const [, subresources = []] = guards.find(([pattern]) => pattern.test(path)) ?? [];
    for (const subresource of subresources) if (await this.#may(user, verb, subresource, nodeName)) return;
    throw new HttpProblem(403, `Forbidden (user=${user.name}, verb=${verb}, resource=nodes, subresource(s)=[${subresources.join(' ')}])`);
  }

  async #byToken(header: string | undefined): Promise<User | undefined> {
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

  async #may(user: User, verb: string, subresource: string, nodeName: string): Promise<boolean> {
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

/** Only the API server of this process is given connections that are no sockets. */
function byConnection(socket: Duplex): User | undefined {
  return socket instanceof LocalConnection ? ownApiServer : byCertificate(socket as TLSSocket);
}

/** Whom a certificate of the cluster's CA names. */
function byCertificate(socket: TLSSocket): User | undefined {
  if (!socket.authorized) return undefined;
  const certificate = socket.getPeerCertificate();
  // a connection without a certificate is authorized for nothing, whatever it says of itself
  if (Object.keys(certificate).length === 0) return undefined;
  const { CN, O } = certificate.subject;
  const groups: readonly string[] = Array.isArray(O) ? O : O === undefined ? [] : [O];
  return { name: (Array.isArray(CN) ? CN[0] : CN) ?? '', groups: [...groups, 'system:authenticated'] };
}
