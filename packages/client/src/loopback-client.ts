import type { KubeObject, ObjectList } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import { failure } from '@oarlock/api/status';
import type { SpanContext } from '@oarlock/kernel/tracing';
import type { Identity } from '@oarlock/spi/authn';
import type { CallOptions, Client, DeleteOptions, ListOptions, WatchEvent, WatchOptions } from '@oarlock/spi/client';
import type { ApiHandler, ApiResponse, LoopbackEndpoint } from '@oarlock/spi/loopback';
import { ObjectClient } from './request/object-client.ts';
import { deleteCollectionCall, listCall, watchCall, type ApiCall } from './request/api-call.ts';

interface Waiter {
  resolve(handler: ApiHandler): void;
  reject(reason: unknown): void;
}

/** Connects the loopback clients of a process to its API server. Requests wait until the server is connected. */
export class LoopbackTransport implements LoopbackEndpoint {
  readonly #maxWaiting: number;
  readonly #waiting = new Set<Waiter>();
  #handler: ApiHandler | undefined;
  #abandoned = false;

  /** At most `maxWaiting` requests wait until the API server is connected; further requests are rejected with `ServiceUnavailable`. */
  constructor({ maxWaiting = 4096 }: { readonly maxWaiting?: number } = {}) {
    this.#maxWaiting = maxWaiting;
  }

  connect(handler: ApiHandler): void {
    if (this.#handler !== undefined) throw new Error('the loopback is connected already');
    this.#handler = handler;
    for (const { resolve } of this.#waiting) resolve(handler);
    this.#waiting.clear();
  }

  /** Declares that the server will not start: waiting and later requests fail with `ServiceUnavailable`. Does nothing after `connect`. */
  abandon(): void {
    if (this.#handler !== undefined) return;
    this.#abandoned = true;
    for (const { reject } of this.#waiting) reject(neverStarted());
    this.#waiting.clear();
  }

  get connected(): boolean {
    return this.#handler !== undefined;
  }

  /** Returns the server as soon as it accepts requests. Rejects with the signal's reason if the signal aborts first. */
  handler(signal?: AbortSignal): ApiHandler | Promise<ApiHandler> {
    if (signal?.aborted) return Promise.reject(signal.reason);
    if (this.#handler !== undefined) return this.#handler;
    if (this.#abandoned) return Promise.reject(neverStarted());
    if (this.#waiting.size >= this.#maxWaiting) {
      return Promise.reject(
        failure('ServiceUnavailable', 'the API server is not up yet and too many requests wait for it', { retryAfterSeconds: 1 }),
      );
    }
    return new Promise((resolve, reject) => {
      const abort = () => {
        this.#waiting.delete(waiter);
        reject(signal?.reason);
      };
      const waiter: Waiter = {
        resolve(handler) {
          signal?.removeEventListener('abort', abort);
          resolve(handler);
        },
        reject(reason) {
          signal?.removeEventListener('abort', abort);
          reject(reason);
        },
      };
      signal?.addEventListener('abort', abort, { once: true });
      this.#waiting.add(waiter);
    });
  }
}

const neverStarted = () => failure('ServiceUnavailable', 'the API server of this process has not started, and the process stops');

export interface LoopbackClientOptions {
  readonly userAgent?: string;
}

/**
 * Returns a client that calls the API server of this process with an identity, without sockets and encoding. Objects are those of the watch cache,
 * frozen and shared. Requests before the server is connected wait for it.
 */
export function loopbackClient(
  transport: LoopbackTransport,
  identity: Identity,
  { userAgent = 'oarlock' }: LoopbackClientOptions = {},
): Client {
  return new LoopbackClient(transport, { identity, userAgent, spanContext: undefined });
}

/** The identity and the span of the requests of a client. */
export interface LoopbackCaller {
  readonly identity: Identity;
  readonly userAgent: string;
  readonly spanContext: SpanContext | undefined;
}

class LoopbackClient extends ObjectClient implements Client {
  readonly #transport: LoopbackTransport;
  readonly #identity: Identity;
  readonly #userAgent: string;
  readonly #spanContext: SpanContext | undefined;

  constructor(transport: LoopbackTransport, { identity, userAgent, spanContext }: LoopbackCaller) {
    super();
    this.#transport = transport;
    this.#identity = identity;
    this.#userAgent = userAgent;
    this.#spanContext = spanContext;
  }

  async list<T extends KubeObject>(resource: Resource<T>, options?: ListOptions): Promise<ObjectList<T>> {
    const response = await this.#send(listCall(resource, options));
    if (response.kind !== 'list') throw unexpected(response);
    return response.list as ObjectList<T>;
  }

  async *watch<T extends KubeObject>(resource: Resource<T>, options: WatchOptions): AsyncGenerator<readonly WatchEvent<T>[]> {
    const { signal } = options;
    try {
      const response = await this.#send(watchCall(resource, options));
      if (response.kind !== 'watch') throw unexpected(response);
      yield* response.events as AsyncIterable<readonly WatchEvent<T>[]>;
    } catch (error) {
      if (signal.aborted && error === signal.reason) return;
      throw error;
    }
  }

  async deleteCollection<T extends KubeObject>(
    resource: Resource<T>,
    options?: DeleteOptions & Pick<ListOptions, 'namespace' | 'labelSelector' | 'fieldSelector'>,
  ): Promise<void> {
    await this.#send(deleteCollectionCall(resource, options));
  }

  async raw(method: 'GET' | 'POST' | 'PUT' | 'DELETE', path: string, body?: unknown, options: CallOptions = {}): Promise<unknown> {
    const handler = await this.#transport.handler(options.signal);
    return handler.handlePath(method, path, body, this.#identity);
  }

  withSpanContext(spanContext: SpanContext | undefined): Client {
    return new LoopbackClient(this.#transport, { identity: this.#identity, userAgent: this.#userAgent, spanContext });
  }

  async #send(call: ApiCall): Promise<ApiResponse> {
    const handler = await this.#transport.handler(call.signal);
    return handler.handle({ ...call, identity: this.#identity, userAgent: this.#userAgent, spanContext: this.#spanContext });
  }

  protected async requestObject<T extends KubeObject>(call: ApiCall): Promise<T> {
    const response = await this.#send(call);
    if (response.kind !== 'object') throw unexpected(response);
    return response.object as T;
  }
}

const unexpected = (response: ApiResponse) => failure('InternalError', `the API server returned an unexpected ${response.kind}`);
