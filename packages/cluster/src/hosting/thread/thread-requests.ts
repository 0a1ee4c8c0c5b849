import type { Resource } from '@oarlock/api/resource';
import type { Client, WatchOptions } from '@oarlock/spi/client';
import { serializeError, type FromThreadMessage, type ToThreadMessage } from './thread-protocol.ts';

type RequestMethod = 'get' | 'list' | 'create' | 'update' | 'patch' | 'delete' | 'deleteCollection' | 'raw';
/** The methods that a thread or process may call, whose name it sends. */
const requestMethods: ReadonlySet<string> = new Set<RequestMethod>([
  'get',
  'list',
  'create',
  'update',
  'patch',
  'delete',
  'deleteCollection',
  'raw',
]);

/** Sends API requests of a plugin in a thread and returns the responses. A watch continues when its events are consumed. */
export class ThreadRequests {
  readonly #client: Client;
  readonly #send: (message: ToThreadMessage) => void;
  readonly #watches = new Map<number, { readonly stop: AbortController; more: () => void }>();

  constructor(client: Client, send: (message: ToThreadMessage) => void) {
    this.#client = client;
    this.#send = send;
  }

  /** Handles a message with an API request. Ignores messages of other types. */
  handleMessage(message: FromThreadMessage): void {
    switch (message.type) {
      case 'ask':
        void this.#request(message);
        return;
      case 'watch':
        void this.#watch(message);
        return;
      case 'more':
        this.#watches.get(message.id)?.more();
        return;
      case 'cancel':
        this.#watches.get(message.id)?.stop.abort();
        this.#watches.get(message.id)?.more();
        return;
      default:
    }
  }

  /** Ends all watches, because the thread has ended. */
  end(): void {
    for (const { stop, more } of this.#watches.values()) {
      stop.abort();
      more();
    }
    this.#watches.clear();
  }

  async #request({ id, method, args, spanContext }: Extract<FromThreadMessage, { readonly type: 'ask' }>): Promise<void> {
    const client = (spanContext === undefined ? this.#client : this.#client.withSpanContext(spanContext)) as unknown as Readonly<
      Record<string, (...list: readonly unknown[]) => Promise<unknown>>
    >;
    try {
      if (!requestMethods.has(method)) throw new Error(`the client has no method ${JSON.stringify(method)}`);
      this.#send({ type: 'answer', id, value: await client[method]?.(...args) });
    } catch (error) {
      this.#send({ type: 'answer', id, error: serializeError(error) });
    }
  }

  async #watch({ id, resource, options, spanContext }: Extract<FromThreadMessage, { readonly type: 'watch' }>): Promise<void> {
    const stop = new AbortController();
    const watch = { stop, more: () => {} };
    this.#watches.set(id, watch);
    const { signal } = stop;
    try {
      for await (const events of this.#client
        .withSpanContext(spanContext)
        .watch(resource as Resource, { ...(options as WatchOptions), signal })) {
        const consumed = new Promise<void>((resolve) => {
          watch.more = resolve;
        });
        this.#send({ type: 'events', id, events });
        await consumed;
        if (signal.aborted) break;
      }
      this.#send({ type: 'watched', id });
    } catch (error) {
      if (!signal.aborted) this.#send({ type: 'watched', id, error: serializeError(error) });
    } finally {
      this.#watches.delete(id);
    }
  }
}
