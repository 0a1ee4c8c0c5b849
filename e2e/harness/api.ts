import { readFile } from 'node:fs/promises';
import { Agent, request, type RequestOptions } from 'node:https';
import type { IncomingMessage } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { parse } from 'yaml';
import { patienceMs } from './until.ts';

/** The fields of any object that the tests read. */
export interface Item {
  readonly kind?: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly uid?: string;
    readonly resourceVersion?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
    readonly deletionTimestamp?: string;
    readonly ownerReferences?: readonly { readonly kind: string; readonly name: string }[];
  };
}
export interface ContainerStatus {
  readonly name: string;
  readonly ready: boolean;
  readonly restartCount: number;
  readonly containerID?: string;
  readonly image?: string;
  readonly state?: {
    readonly running?: { readonly startedAt: string };
    readonly waiting?: { readonly reason?: string; readonly message?: string };
    readonly terminated?: { readonly exitCode: number; readonly reason?: string };
  };
  readonly lastState?: { readonly terminated?: { readonly exitCode: number; readonly reason?: string } };
}
export interface PodItem extends Item {
  readonly spec: { readonly nodeName?: string; readonly containers: readonly { readonly name: string; readonly image: string }[] };
  readonly status: {
    readonly phase?: string;
    readonly podIP?: string;
    readonly hostIP?: string;
    readonly startTime?: string;
    readonly reason?: string;
    readonly message?: string;
    readonly conditions?: readonly {
      readonly type: string;
      readonly status: string;
      readonly reason?: string;
      readonly message?: string;
    }[];
    readonly containerStatuses?: readonly ContainerStatus[];
  };
}

type Fields = Readonly<Record<string, unknown>>;

export interface Answer {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}
export interface CallOptions {
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly timeoutMs?: number;
}

interface Kubeconfig {
  readonly clusters: readonly { readonly cluster: { readonly server: string; readonly 'certificate-authority-data': string } }[];
  readonly users: readonly { readonly user: { readonly 'client-certificate-data': string; readonly 'client-key-data': string } }[];
}
const decode = (text: string | undefined) => Buffer.from(text ?? '', 'base64').toString('utf8');

/** Sends a request with a JSON body. Resolves with the response when its head has arrived. */
export function openRequest(
  url: URL,
  { body, headers, timeoutMs = 60_000 }: CallOptions,
  { method, ...options }: RequestOptions & { readonly method: string },
): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const text = body === undefined ? undefined : JSON.stringify(body);
    const call = request(url, {
      ...options,
      method,
      ...(timeoutMs > 0 && { timeout: timeoutMs }),
      headers: {
        accept: 'application/json',
        ...(text !== undefined && { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }),
        ...headers,
      },
    });
    call
      .once('error', reject)
      .once('response', resolve)
      .once('timeout', () => call.destroy(new Error(`${method} ${url.pathname}${url.search}: no answer within ${timeoutMs} ms`)));
    call.end(text);
  });
}

export async function readAnswer(response: IncomingMessage): Promise<Answer> {
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk as Buffer);
  return { status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(chunks).toString('utf8') };
}

/** Parses the body of an answer. @throws ApiError if the status is not 2xx */
export function jsonOf<T>(method: string, path: string, { status, body }: Answer): T {
  if (status < 200 || status > 299) throw new ApiError(method, path, status, body);
  return JSON.parse(body) as T;
}

/** A client for plain HTTPS requests to an API server, with the credentials of a kubeconfig. */
export class Api {
  readonly server: string;
  readonly #tls: { readonly ca: string; readonly cert: string; readonly key: string };
  readonly #agent: Agent;

  private constructor(server: string, tls: { readonly ca: string; readonly cert: string; readonly key: string }) {
    this.server = server;
    this.#tls = tls;
    this.#agent = new Agent({ keepAlive: true, maxSockets: 64, ...tls });
  }

  static async of(kubeconfig: string): Promise<Api> {
    const config = parse(await readFile(kubeconfig, 'utf8')) as Kubeconfig;
    const [cluster, user] = [config.clusters[0]?.cluster, config.users[0]?.user];
    if (cluster === undefined || user === undefined) throw new Error(`${kubeconfig} names no cluster or no user`);
    return new Api(cluster.server, {
      ca: decode(cluster['certificate-authority-data']),
      cert: decode(user['client-certificate-data']),
      key: decode(user['client-key-data']),
    });
  }

  get tls(): { readonly ca: string; readonly cert: string; readonly key: string } {
    return this.#tls;
  }
  close(): void {
    this.#agent.destroy();
  }

  #open(method: string, path: string, options: CallOptions, signal?: AbortSignal): Promise<IncomingMessage> {
    return openRequest(new URL(path, this.server), options, { method, agent: this.#agent, ...(signal && { signal }) });
  }

  async call(method: string, path: string, options: CallOptions = {}): Promise<Answer> {
    return readAnswer(await this.#open(method, path, options));
  }

  /** @throws ApiError if the status is not 2xx */
  async json<T>(method: string, path: string, options: CallOptions = {}): Promise<T> {
    return jsonOf<T>(method, path, await this.call(method, path, options));
  }

  get<T>(path: string): Promise<T> {
    return this.json<T>('GET', path);
  }

  /**
   * Creates an object in a list. Deletes an object of that name that an earlier attempt left.
   * @throws ApiError if the API server rejects the object
   */
  async renew<T extends Item>(path: string, body: Fields & { readonly metadata: Fields & { readonly name: string } }): Promise<T> {
    const create = () => this.json<T>('POST', path, { body });
    try {
      return await create();
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 409)) throw error;
      const { name } = body.metadata;
      await this.call('DELETE', `${path}/${name}?gracePeriodSeconds=0`);
      await this.until(`${name} of an earlier attempt is gone`, `${path}?fieldSelector=metadata.name%3D${name}`, (all) => all.length === 0);
      return create();
    }
  }

  /** Yields the lines of a watch until the signal aborts or the server ends it. */
  async *watch<T extends Item>(
    path: string,
    resourceVersion: string,
    signal: AbortSignal,
  ): AsyncGenerator<{ readonly type: string; readonly object: T }> {
    const response = await this.#open(
      'GET',
      `${path}${path.includes('?') ? '&' : '?'}watch=1&allowWatchBookmarks=true&resourceVersion=${resourceVersion}`,
      { timeoutMs: 0 },
      signal,
    );
    if (response.statusCode !== 200) throw new ApiError('WATCH', path, response.statusCode ?? 0, '');
    let rest = '';
    response.setEncoding('utf8');
    for await (const chunk of response) {
      const lines = `${rest}${chunk as string}`.split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) if (line !== '') yield JSON.parse(line) as { type: string; object: T };
    }
  }

  /**
   * Yields the states of a list until the signal aborts. Reconnects if the server is unavailable.
   * `last` holds the latest state and the latest error.
   */
  async *#states<T extends Item>(
    path: string,
    signal: AbortSignal,
    last: { items: readonly T[]; fault?: unknown },
  ): AsyncGenerator<readonly T[]> {
    const known = new Map<string, T>();
    const state = () => (last.items = [...known.values()]);
    while (!signal.aborted) {
      try {
        const list = await this.get<{ readonly metadata: { readonly resourceVersion: string }; readonly items: readonly T[] }>(path);
        known.clear();
        for (const item of list.items) known.set(keyOf(item), item);
        yield state();
        for await (const { type, object } of this.watch<T>(path, list.metadata.resourceVersion, signal)) {
          if (type === 'ERROR') break;
          if (type === 'BOOKMARK') continue;
          if (type === 'DELETED') known.delete(keyOf(object));
          else known.set(keyOf(object), object);
          yield state();
        }
      } catch (error) {
        if (signal.aborted) return;
        last.fault = error;
        await delay(50, undefined, { signal }).catch(() => undefined);
      }
    }
  }

  /**
   * Follows a list (`/api/v1/namespaces/a/pods?labelSelector=app%3Dhello`) until `wanted` returns true.
   * @throws Error with the latest state after the deadline; errors of `wanted` immediately
   */
  async until<T extends Item>(
    what: string,
    path: string,
    wanted: (items: readonly T[]) => boolean,
    timeoutMs = patienceMs,
  ): Promise<readonly T[]> {
    const stop = new AbortController();
    const timer = setTimeout(() => stop.abort(), timeoutMs);
    const last: { items: readonly T[]; fault?: unknown } = { items: [] };
    try {
      for await (const items of this.#states(path, stop.signal, last)) if (wanted(items)) return items;
    } finally {
      clearTimeout(timer);
      stop.abort();
    }
    throw new Error(
      `${what}: not within ${timeoutMs} ms; last seen at ${path}: ${last.items.map(summary).join('; ') || 'nothing'}${last.fault === undefined ? '' : `; last fault: ${String(last.fault)}`}`,
    );
  }

  pods(namespace: string, app?: string): string {
    return `/api/v1/namespaces/${namespace}/pods${app === undefined ? '' : `?labelSelector=app%3D${app}`}`;
  }

  /** Waits until exactly `count` pods exist, all ready and none terminating. */
  untilReady(namespace: string, app: string, count: number, timeoutMs = patienceMs): Promise<readonly PodItem[]> {
    return this.until<PodItem>(
      `${count} pods of ${app} ready`,
      this.pods(namespace, app),
      (pods) => pods.length === count && pods.every(isReady),
      timeoutMs,
    );
  }
}

const keyOf = ({ metadata }: Item) => `${metadata.namespace ?? ''}/${metadata.name}`;
export const isReady = (pod: PodItem) =>
  pod.metadata.deletionTimestamp === undefined &&
  pod.status.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') === true;

function summary(item: Item): string {
  const pod = item as Partial<PodItem>;
  const states =
    pod.status?.containerStatuses?.map(
      ({ name, ready, restartCount, state }) => `${name} ready=${ready} restarts=${restartCount} ${JSON.stringify(state)}`,
    ) ?? [];
  const conditions =
    pod.status?.conditions
      ?.filter(({ status }) => status !== 'True')
      .map(({ type, reason, message }) => `${type}: ${reason ?? ''} ${message ?? ''}`) ?? [];
  return `${keyOf(item)} ${pod.status?.phase ?? ''}${item.metadata.deletionTimestamp === undefined ? '' : ' leaving'} ${states.join(', ')} ${conditions.join(', ')}`.slice(
    0,
    600,
  );
}

export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly status: number;
  constructor(method: string, path: string, status: number, body: string) {
    super(`${method} ${path} answered ${status}: ${body.slice(0, 1000)}`);
    this.status = status;
  }
}
