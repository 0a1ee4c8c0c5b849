import { StatusError } from '@oarlock/api/status';
import type { Cause } from '@oarlock/kernel/tracing';
import type { Client, WatchEvent } from '@oarlock/spi/client';
import { withoutSignal, type CarriedError, type FromThread, type ToThread } from './thread-protocol.ts';

interface Watching {
  readonly batches: (readonly WatchEvent[])[];
  done: { readonly error?: CarriedError } | undefined;
  wake: () => void;
}
interface Asked {
  resolve(value: unknown): void;
  reject(error: unknown): void;
}

export const uncarried = ({ message, stack, status }: CarriedError): Error =>
  status === undefined ? Object.assign(new Error(message), stack === undefined ? {} : { stack }) : new StatusError(status);

/** The client of the process, from within a thread of it. A watch sends the next batch when the one before was taken. */
export class ThreadClient {
  readonly #send: (message: FromThread) => void;
  readonly #asked = new Map<number, Asked>();
  readonly #watching = new Map<number, Watching>();
  #ids = 0;

  constructor(send: (message: FromThread) => void) {
    this.#send = send;
  }

  take(message: Extract<ToThread, { readonly type: 'answer' | 'events' | 'watched' }>): void {
    if (message.type === 'answer') {
      const asked = this.#asked.get(message.id);
      this.#asked.delete(message.id);
      if (message.error === undefined) asked?.resolve(message.value);
      else asked?.reject(uncarried(message.error));
      return;
    }
    const watching = this.#watching.get(message.id);
    if (watching === undefined) return;
    if (message.type === 'events') watching.batches.push(message.events);
    else watching.done = message.error === undefined ? {} : { error: message.error };
    watching.wake();
  }

  client(cause?: Cause): Client {
    const ask =
      (method: string) =>
      (...args: readonly unknown[]): Promise<never> =>
        this.#ask(method, args, cause) as Promise<never>;
    return {
      get: ask('get'),
      list: ask('list'),
      create: ask('create'),
      update: ask('update'),
      patch: ask('patch'),
      delete: ask('delete'),
      deleteCollection: ask('deleteCollection'),
      raw: ask('raw'),
      watch: (resource, options) => this.#watch(resource, options, cause) as never,
      causedBy: (next) => this.client(next),
    };
  }

  #ask(method: string, args: readonly unknown[], cause: Cause | undefined): Promise<unknown> {
    const id = ++this.#ids;
    const signal = args.map((arg) => (arg as { readonly signal?: AbortSignal } | undefined)?.signal).find((each) => each !== undefined);
    return new Promise((resolve, reject) => {
      this.#asked.set(id, { resolve, reject });
      signal?.addEventListener(
        'abort',
        () => {
          if (!this.#asked.delete(id)) return;
          this.#send({ type: 'cancel', id });
          reject(signal.reason);
        },
        { once: true },
      );
      this.#send({ type: 'ask', id, method, args: args.map(withoutSignal), ...(cause && { cause }) });
    });
  }

  async *#watch(
    resource: unknown,
    options: { readonly signal: AbortSignal },
    cause: Cause | undefined,
  ): AsyncIterable<readonly WatchEvent[]> {
    const id = ++this.#ids;
    const watching: Watching = { batches: [], done: undefined, wake: () => {} };
    this.#watching.set(id, watching);
    const end = () => {
      watching.done ??= {};
      watching.wake();
    };
    options.signal.addEventListener('abort', end, { once: true });
    this.#send({ type: 'watch', id, resource, options: withoutSignal(options), ...(cause && { cause }) });
    try {
      while (!options.signal.aborted) {
        const batch = watching.batches.shift();
        if (batch !== undefined) {
          yield batch;
          this.#send({ type: 'more', id });
        } else if (watching.done !== undefined) {
          if (watching.done.error !== undefined) throw uncarried(watching.done.error);
          return;
        } else
          await new Promise<void>((resolve) => {
            watching.wake = resolve;
          });
      }
    } finally {
      options.signal.removeEventListener('abort', end);
      this.#watching.delete(id);
      this.#send({ type: 'cancel', id });
    }
  }
}
