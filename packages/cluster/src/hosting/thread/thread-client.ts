import { StatusError } from '@oarlock/api/status';
import type { SpanContext } from '@oarlock/kernel/tracing';
import type { Client, WatchEvent } from '@oarlock/spi/client';
import { withoutSignal, type SerializedError, type FromThreadMessage, type ToThreadMessage } from './thread-protocol.ts';

interface PendingWatch {
  readonly batches: (readonly WatchEvent[])[];
  done: { readonly error?: SerializedError } | undefined;
  wake: () => void;
}
interface PendingRequest {
  resolve(value: unknown): void;
  reject(error: unknown): void;
}

export const deserializeError = ({ message, stack, status }: SerializedError): Error =>
  status === undefined ? Object.assign(new Error(message), stack === undefined ? {} : { stack }) : new StatusError(status);

/**
 * A Kubernetes client in a worker thread, which sends requests to the main thread. A watch receives the next batch when the previous batch is
 * consumed.
 */
export class ThreadClient {
  readonly #send: (message: FromThreadMessage) => void;
  readonly #pendingRequests = new Map<number, PendingRequest>();
  readonly #pendingWatches = new Map<number, PendingWatch>();
  #ids = 0;

  constructor(send: (message: FromThreadMessage) => void) {
    this.#send = send;
  }

  handleMessage(message: Extract<ToThreadMessage, { readonly type: 'answer' | 'events' | 'watched' }>): void {
    if (message.type === 'answer') {
      const pending = this.#pendingRequests.get(message.id);
      this.#pendingRequests.delete(message.id);
      if (message.error === undefined) pending?.resolve(message.value);
      else pending?.reject(deserializeError(message.error));
      return;
    }
    const watching = this.#pendingWatches.get(message.id);
    if (watching === undefined) return;
    if (message.type === 'events') watching.batches.push(message.events);
    else watching.done = message.error === undefined ? {} : { error: message.error };
    watching.wake();
  }

  client(spanContext?: SpanContext): Client {
    const request =
      (method: string) =>
      (...args: readonly unknown[]): Promise<never> =>
        this.#request(method, args, spanContext) as Promise<never>;
    return {
      get: request('get'),
      list: request('list'),
      create: request('create'),
      update: request('update'),
      patch: request('patch'),
      delete: request('delete'),
      deleteCollection: request('deleteCollection'),
      raw: request('raw'),
      watch: (resource, options) => this.#watch(resource, options, spanContext) as never,
      withSpanContext: (next) => this.client(next),
    };
  }

  #request(method: string, args: readonly unknown[], spanContext: SpanContext | undefined): Promise<unknown> {
    const id = ++this.#ids;
    const signal = args.map((arg) => (arg as { readonly signal?: AbortSignal } | undefined)?.signal).find((each) => each !== undefined);
    return new Promise((resolve, reject) => {
      this.#pendingRequests.set(id, { resolve, reject });
      signal?.addEventListener(
        'abort',
        () => {
          if (!this.#pendingRequests.delete(id)) return;
          this.#send({ type: 'cancel', id });
          reject(signal.reason);
        },
        { once: true },
      );
      this.#send({ type: 'ask', id, method, args: args.map(withoutSignal), ...(spanContext && { spanContext }) });
    });
  }

  async *#watch(
    resource: unknown,
    options: { readonly signal: AbortSignal },
    spanContext: SpanContext | undefined,
  ): AsyncIterable<readonly WatchEvent[]> {
    const id = ++this.#ids;
    const watching: PendingWatch = { batches: [], done: undefined, wake: () => {} };
    this.#pendingWatches.set(id, watching);
    const end = () => {
      watching.done ??= {};
      watching.wake();
    };
    options.signal.addEventListener('abort', end, { once: true });
    this.#send({ type: 'watch', id, resource, options: withoutSignal(options), ...(spanContext && { spanContext }) });
    try {
      while (!options.signal.aborted) {
        const batch = watching.batches.shift();
        if (batch !== undefined) {
          yield batch;
          this.#send({ type: 'more', id });
        } else if (watching.done !== undefined) {
          if (watching.done.error !== undefined) throw deserializeError(watching.done.error);
          return;
        } else
          await new Promise<void>((resolve) => {
            watching.wake = resolve;
          });
      }
    } finally {
      options.signal.removeEventListener('abort', end);
      this.#pendingWatches.delete(id);
      this.#send({ type: 'cancel', id });
    }
  }
}
