import type { KubeObject, ObjectList } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import { failure } from '@oarlock/api/status';
import type { Cause } from '@oarlock/kernel/tracing';
import type { Identity } from '@oarlock/spi/authn';
import type { CallOptions, Client, DeleteOptions, ListOptions, WatchEvent, WatchOptions } from '@oarlock/spi/client';
import type { ApiHandler, ApiResponse, LoopbackSwitch } from '@oarlock/spi/loopback';
import { ObjectCalls } from './object-calls.ts';
import { deleteCollectionCall, listCall, watchCall, type Call } from './request.ts';

interface Waiter {
  resolve(handler: ApiHandler): void;
  reject(reason: unknown): void;
}

/** Where the loopback clients of a process wait for, and then find, the API server of the same process. */
export class LoopbackSwitchboard implements LoopbackSwitch {
  readonly #maxWaiting: number;
  readonly #waiting = new Set<Waiter>();
  #handler: ApiHandler | undefined;
  #abandoned = false;

  /** At most `maxWaiting` requests wait for the server; more are refused with `ServiceUnavailable`. */
  constructor({ maxWaiting = 4096 }: { readonly maxWaiting?: number } = {}) {
    this.#maxWaiting = maxWaiting;
  }

  connect(handler: ApiHandler): void {
    if (this.#handler !== undefined) throw new Error('the loopback is connected already');
    this.#handler = handler;
    for (const { resolve } of this.#waiting) resolve(handler);
    this.#waiting.clear();
  }

  /** Nothing has connected, and nothing will: who waits, or asks from now on, gets a `ServiceUnavailable`. Without effect once there is a server. */
  abandon(): void {
    if (this.#handler !== undefined) return;
    this.#abandoned = true;
    for (const { reject } of this.#waiting) reject(neverUp());
    this.#waiting.clear();
  }

  get connected(): boolean {
    return this.#handler !== undefined;
  }

  /** The server, as soon as it accepts requests. Rejects with the signal's reason when it aborts first. */
  handler(signal?: AbortSignal): ApiHandler | Promise<ApiHandler> {
    if (signal?.aborted) return Promise.reject(signal.reason);
    if (this.#handler !== undefined) return this.#handler;
    if (this.#abandoned) return Promise.reject(neverUp());
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

const neverUp = () => failure('ServiceUnavailable', 'the API server of this process has not come up, and the process stops');

export interface LoopbackClientOptions {
  readonly userAgent?: string;
}

/**
 * The API of this process, asked with an identity: no sockets and no encoding. Objects are the watch cache's own, frozen and shared.
 * Requests made before the server is connected wait for it.
 */
export function loopbackClient(
  switchboard: LoopbackSwitchboard,
  identity: Identity,
  { userAgent = 'oarlock' }: LoopbackClientOptions = {},
): Client {
  return new LoopbackClient(switchboard, identity, userAgent, undefined);
}

class LoopbackClient extends ObjectCalls implements Client {
  readonly #switchboard: LoopbackSwitchboard;
  readonly #identity: Identity;
  readonly #userAgent: string;
  readonly #cause: Cause | undefined;

  constructor(switchboard: LoopbackSwitchboard, identity: Identity, userAgent: string, cause: Cause | undefined) {
    super();
    this.#switchboard = switchboard;
    this.#identity = identity;
    this.#userAgent = userAgent;
    this.#cause = cause;
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
    const handler = await this.#switchboard.handler(options.signal);
    return handler.handlePath(method, path, body, this.#identity);
  }

  causedBy(cause: Cause | undefined): Client {
    return new LoopbackClient(this.#switchboard, this.#identity, this.#userAgent, cause);
  }

  async #send(call: Call): Promise<ApiResponse> {
    const handler = await this.#switchboard.handler(call.signal);
    return handler.handle({ ...call, identity: this.#identity, userAgent: this.#userAgent, cause: this.#cause });
  }

  protected async object<T extends KubeObject>(call: Call): Promise<T> {
    const response = await this.#send(call);
    if (response.kind !== 'object') throw unexpected(response);
    return response.object as T;
  }
}

const unexpected = (response: ApiResponse) =>
  failure('InternalError', `the API server answered with a ${response.kind} where none was asked for`);
