import 'reflect-metadata';
import { readFile } from 'node:fs/promises';
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { Agent, request } from 'node:https';
import type { KubeObject } from '@oarlock/api/object';
import { endpoints } from '@oarlock/api/resources';
import type { Status } from '@oarlock/api/status';
import { startCluster, type StartClusterOptions, type TestCluster } from '@oarlock/testing/start-cluster';
import { parse } from 'yaml';

/** The members of objects that these tests read. */
export interface Thing extends KubeObject {
  readonly spec?: Readonly<Record<string, unknown>>;
  readonly status?: Readonly<Record<string, unknown>>;
  readonly data?: Readonly<Record<string, string>>;
  readonly [member: string]: unknown;
}
export interface ThingList {
  readonly metadata: { readonly resourceVersion: string; readonly continue?: string };
  readonly items: readonly Thing[];
}
export interface Answer {
  readonly code: number;
  readonly headers: IncomingHttpHeaders;
  readonly bytes: Buffer;
}
export interface Asking {
  /** An object is sent as JSON; bytes and strings unchanged. */
  readonly body?: object | Buffer | string;
  readonly type?: string;
  readonly accept?: string;
  readonly as?: string;
}
interface Kubeconfig {
  readonly clusters: readonly { readonly cluster: { readonly 'certificate-authority-data': string } }[];
  readonly users: readonly { readonly user: { readonly 'client-certificate-data': string; readonly 'client-key-data': string } }[];
}

export const json = 'application/json';
export const mergePatch = 'application/merge-patch+json';
export const strategicPatch = 'application/strategic-merge-patch+json';
export const jsonPatch = 'application/json-patch+json';
export const applyPatch = 'application/apply-patch+yaml';
const patienceMs = 280_000;

/** The error of a request that a test did not expect to be rejected. */
export class Rejection extends Error {
  readonly code: number;
  readonly status: Status;
  constructor(what: string, code: number, status: Status) {
    super(`${what}: ${code} ${status.message ?? ''}`);
    this.code = code;
    this.status = status;
  }
}

/** A whole cluster in this process, and an HTTPS client with kubectl's protocol. */
export class Wire {
  readonly cluster: TestCluster;
  readonly tls: { readonly ca: Buffer; readonly cert: Buffer; readonly key: Buffer };
  readonly server: string;
  readonly #agent: Agent;
  readonly #watches = new Set<Watching>();

  private constructor(cluster: TestCluster, server: string, tls: Wire['tls']) {
    this.cluster = cluster;
    this.server = server;
    this.tls = tls;
    this.#agent = new Agent({ keepAlive: true, maxSockets: 32, ...tls });
  }

  /** With `nodes` simulated nodes, whose pods run on the clock. */
  static async start({ nodes = 0, ...more }: StartClusterOptions & { readonly nodes?: number } = {}): Promise<Wire> {
    const cluster = await startCluster({
      ...(nodes > 0 && {
        roles: ['apiserver', 'controllers', 'scheduler', 'kubelet'],
        spec: {
          storage: 'storage-memory',
          runtimes: ['runtime-simulated'],
          settings: { kubelet: { nodeName: 'node', count: nodes, port: 0 } },
        },
      }),
      ...more,
    });
    // the port is chosen when the server starts; the cluster's own Service points to it
    const { subsets } = await cluster.client.get(endpoints, { namespace: 'default', name: 'kubernetes' });
    const config = parse(await readFile(cluster.kubeconfig, 'utf8')) as Kubeconfig;
    const bytes = (text: string | undefined) => Buffer.from(text ?? '', 'base64');
    const user = config.users[0]?.user;
    return new Wire(cluster, `https://127.0.0.1:${subsets?.[0]?.ports?.[0]?.port}`, {
      ca: bytes(config.clusters[0]?.cluster['certificate-authority-data']),
      cert: bytes(user?.['client-certificate-data']),
      key: bytes(user?.['client-key-data']),
    });
  }

  async stop(): Promise<void> {
    for (const watch of this.#watches) watch.close();
    this.#agent.destroy();
    await this.cluster.stop();
  }

  #open(method: string, path: string, { body, type, accept = json, as }: Asking, signal?: AbortSignal): Promise<IncomingMessage> {
    const bytes = body === undefined ? undefined : Buffer.isBuffer(body) || typeof body === 'string' ? body : JSON.stringify(body);
    return new Promise((resolve, reject) => {
      request(`${this.server}${path}`, {
        method,
        agent: this.#agent,
        ...(signal && { signal }),
        headers: {
          accept,
          ...(bytes !== undefined && { 'content-type': type ?? json, 'content-length': Buffer.byteLength(bytes) }),
          ...(as !== undefined && { 'impersonate-user': as }),
        },
      })
        .once('error', reject)
        .once('response', resolve)
        .end(bytes);
    });
  }

  async call(method: string, path: string, asking: Asking = {}): Promise<Answer> {
    const response = await this.#open(method, path, asking);
    const chunks: Buffer[] = [];
    for await (const chunk of response) chunks.push(chunk as Buffer);
    return { code: response.statusCode ?? 0, headers: response.headers, bytes: Buffer.concat(chunks) };
  }

  /** @throws Rejection */
  async #ask<T>(method: string, path: string, asking: Asking = {}): Promise<T> {
    const { code, bytes } = await this.call(method, path, asking);
    const answer = JSON.parse(bytes.toString()) as T;
    if (code > 299) throw new Rejection(`${method} ${path}`, code, answer as Status);
    return answer;
  }
  get<T = Thing>(path: string): Promise<T> {
    return this.#ask('GET', path);
  }
  list(path: string): Promise<ThingList> {
    return this.#ask('GET', path);
  }
  create<T = Thing>(path: string, body: object, as?: string): Promise<T> {
    return this.#ask('POST', path, { body, ...(as !== undefined && { as }) });
  }
  update<T = Thing>(path: string, body: object): Promise<T> {
    return this.#ask('PUT', path, { body });
  }
  patch<T = Thing>(path: string, body: object, type = mergePatch): Promise<T> {
    return this.#ask('PATCH', path, { body, type });
  }
  apply<T = Thing>(path: string, body: object, query = 'fieldManager=test'): Promise<T> {
    return this.#ask('PATCH', `${path}?${query}`, { body, type: applyPatch });
  }
  remove<T = Thing>(path: string, body?: object): Promise<T> {
    return this.#ask('DELETE', path, body && { body });
  }
  /** Returns the rejection of a request. */
  async rejectionOf(asked: Promise<unknown>): Promise<Rejection> {
    try {
      await asked;
    } catch (error) {
      if (error instanceof Rejection) return error;
      throw error;
    }
    throw new Error('the request was not rejected');
  }

  async namespace(name: string, labels: Readonly<Record<string, string>> = {}): Promise<string> {
    await this.create('/api/v1/namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels } });
    return name;
  }

  /** Watches `path` from now on, or from `resourceVersion`. Ends with the cluster. */
  async watch(path: string, resourceVersion?: string): Promise<Watching> {
    const from = resourceVersion ?? (await this.list(path)).metadata.resourceVersion;
    const abort = new AbortController();
    const response = await this.#open('GET', `${path}${path.includes('?') ? '&' : '?'}watch=1&resourceVersion=${from}`, {}, abort.signal);
    if (response.statusCode !== 200) throw new Error(`watch of ${path}: ${response.statusCode}`);
    const watching = new Watching(path, response, abort);
    this.#watches.add(watching);
    return watching;
  }

  /** Returns the first state of the object at `path` that matches. */
  async until<T extends Thing = Thing>(path: string, wanted: (object: T | undefined) => boolean): Promise<T | undefined> {
    const slash = path.lastIndexOf('/');
    const [collection, name] = [path.slice(0, slash), path.slice(slash + 1)];
    const selected = `${collection}?fieldSelector=metadata.name%3D${name}`;
    const { items, metadata } = await this.list(selected);
    if (wanted(items[0] as T | undefined)) return items[0] as T | undefined;
    const watch = await this.watch(selected, metadata.resourceVersion);
    try {
      const { type, object } = await watch.next(({ type: what, object: seen }) => wanted(what === 'DELETED' ? undefined : (seen as T)));
      return type === 'DELETED' ? undefined : (object as T);
    } finally {
      watch.close();
    }
  }
}

export interface WatchEvent {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'ERROR' | 'BOOKMARK';
  readonly object: Thing;
}

/** The events of one watch, in order. */
export class Watching {
  readonly #path: string;
  readonly #abort: AbortController;
  readonly #events: AsyncGenerator<WatchEvent>;
  #seen = '';

  constructor(path: string, response: IncomingMessage, abort: AbortController) {
    this.#path = path;
    this.#abort = abort;
    this.#events = lines(response);
  }

  close(): void {
    this.#abort.abort();
  }

  /** Returns the next event that matches. @throws Error on timeout */
  async next(wanted: (event: WatchEvent) => boolean = () => true): Promise<WatchEvent> {
    const timer = setTimeout(() => this.close(), patienceMs);
    try {
      for (;;) {
        const { value, done } = await this.#events.next();
        if (done === true) break;
        this.#seen = `${value.type} ${JSON.stringify(value.object).slice(0, 2000)}`;
        if (wanted(value)) return value;
      }
    } catch (error) {
      throw new Error(`watch of ${this.#path}: the expected event did not arrive; the last one was ${this.#seen}`, { cause: error });
    } finally {
      clearTimeout(timer);
    }
    throw new Error(`watch of ${this.#path} ended; the last event was ${this.#seen}`);
  }

  /** Returns the next event of this type. */
  type(type: WatchEvent['type']): Promise<WatchEvent> {
    return this.next((event) => event.type === type);
  }
}

async function* lines(response: IncomingMessage): AsyncGenerator<WatchEvent> {
  let rest = '';
  response.setEncoding('utf8');
  for await (const chunk of response) {
    const parts = `${rest}${chunk as string}`.split('\n');
    rest = parts.pop() ?? '';
    for (const line of parts) if (line !== '') yield JSON.parse(line) as WatchEvent;
  }
}
