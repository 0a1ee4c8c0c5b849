import { deserializeError } from '../hosting/thread/thread-client.ts';
import { serializeError, type SerializedError } from '../hosting/thread/thread-protocol.ts';

/** A message of the calls between two processes. */
export type CallMessage =
  | { readonly type: 'call'; readonly id: number; readonly method: string; readonly arg: unknown }
  | { readonly type: 'result'; readonly id: number; readonly value?: unknown; readonly error?: SerializedError };

export type CallHandlers = Readonly<Record<string, (arg: never) => unknown>>;

interface PendingCall {
  resolve(value: unknown): void;
  reject(error: Error): void;
}

/** Calls between the first process and a worker, over the channel that Node.js opens between a process and its child. */
export class ProcessCalls {
  readonly #send: (message: CallMessage) => void;
  readonly #handlers: CallHandlers;
  readonly #pending = new Map<number, PendingCall>();
  #ids = 0;
  #ended: Error | undefined;

  /** @param send sends a message, which is copied; throws if it cannot be copied */
  constructor(send: (message: CallMessage) => void, handlers: CallHandlers) {
    this.#send = send;
    this.#handlers = handlers;
  }

  /** Calls a method of the other process. Rejects if the method fails, or when the other process ends. */
  call(method: string, arg?: unknown): Promise<unknown> {
    if (this.#ended !== undefined) return Promise.reject(this.#ended);
    const id = ++this.#ids;
    return new Promise((resolve, reject) => {
      this.#pending.set(id, { resolve, reject });
      try {
        this.#send({ type: 'call', id, method, arg });
      } catch (error) {
        this.#pending.delete(id);
        throw error;
      }
    });
  }

  receive(message: CallMessage): void {
    if (message.type === 'call') {
      void this.#answer(message);
      return;
    }
    const pending = this.#pending.get(message.id);
    this.#pending.delete(message.id);
    if (message.error === undefined) pending?.resolve(message.value);
    else pending?.reject(deserializeError(message.error));
  }

  /** Fails all calls, because the other process has ended. */
  end(reason: Error): void {
    this.#ended = reason;
    for (const { reject } of this.#pending.values()) reject(reason);
    this.#pending.clear();
  }

  async #answer({ id, method, arg }: Extract<CallMessage, { readonly type: 'call' }>): Promise<void> {
    try {
      const handler = Object.hasOwn(this.#handlers, method) ? (this.#handlers[method] as (arg: unknown) => unknown) : undefined;
      if (handler === undefined) throw new Error(`unknown method ${method}`);
      this.#send({ type: 'result', id, value: await handler(arg) });
    } catch (error) {
      if (this.#ended === undefined) this.#send({ type: 'result', id, error: serializeError(error) });
    }
  }
}
