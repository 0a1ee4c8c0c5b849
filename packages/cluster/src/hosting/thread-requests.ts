import type { Resource } from '@oarlock/api/resource';
import type { Client, WatchOptions } from '@oarlock/spi/client';
import { carried, type FromThread, type ToThread } from './thread-protocol.ts';

/** What a plugin in a thread asks of the API, sent on and answered. A watch goes on only as its events are taken. */
export class ThreadRequests {
  readonly #client: Client;
  readonly #send: (message: ToThread) => void;
  readonly #watches = new Map<number, { readonly stop: AbortController; more: () => void }>();

  constructor(client: Client, send: (message: ToThread) => void) {
    this.#client = client;
    this.#send = send;
  }

  /** Messages about anything else are left alone. */
  take(message: FromThread): void {
    switch (message.type) {
      case 'ask':
        void this.#ask(message);
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

  /** Nobody takes events any more. */
  end(): void {
    for (const { stop, more } of this.#watches.values()) {
      stop.abort();
      more();
    }
    this.#watches.clear();
  }

  async #ask({ id, method, args, cause }: Extract<FromThread, { readonly type: 'ask' }>): Promise<void> {
    const asked = (cause === undefined ? this.#client : this.#client.causedBy(cause)) as unknown as Readonly<
      Record<string, (...list: readonly unknown[]) => Promise<unknown>>
    >;
    try {
      this.#send({ type: 'answer', id, value: await asked[method]?.(...args) });
    } catch (error) {
      this.#send({ type: 'answer', id, error: carried(error) });
    }
  }

  async #watch({ id, resource, options, cause }: Extract<FromThread, { readonly type: 'watch' }>): Promise<void> {
    const stop = new AbortController();
    const watch = { stop, more: () => {} };
    this.#watches.set(id, watch);
    const { signal } = stop;
    try {
      for await (const events of this.#client.causedBy(cause).watch(resource as Resource, { ...(options as WatchOptions), signal })) {
        const taken = new Promise<void>((resolve) => {
          watch.more = resolve;
        });
        this.#send({ type: 'events', id, events });
        await taken;
        if (signal.aborted) break;
      }
      this.#send({ type: 'watched', id });
    } catch (error) {
      if (!signal.aborted) this.#send({ type: 'watched', id, error: carried(error) });
    } finally {
      this.#watches.delete(id);
    }
  }
}
