import type { Logger } from '@oarlock/primitives/logger';
import { noTracer, type SpanContext } from '@oarlock/kernel/tracing';
import type { Controller, ControllerWatch, ReconcileResult } from '@oarlock/spi/controller';
import type { ThreadClient } from './thread-client.ts';
import type { FromThreadMessage } from './thread-protocol.ts';

export interface ThreadControllerOptions {
  readonly threadClient: ThreadClient;
  readonly log: Logger;
  send(message: FromThreadMessage): void;
}

/** A controller in a thread: its informers run in the thread, and the controller manager receives the keys that they enqueue. */
export class ThreadController {
  readonly #controller: Controller;
  readonly #options: ThreadControllerOptions;
  readonly #stop = new AbortController();
  #removers: (() => void)[] = [];

  constructor(controller: Controller, options: ThreadControllerOptions) {
    this.#controller = controller;
    this.#options = options;
  }

  /** Sends the keys of all objects, and later those of each change. */
  subscribe(): void {
    this.unsubscribe();
    const add = (watch: ControllerWatch): (() => void) => this.#follow(watch);
    this.#removers = this.#controller.watches.map(add);
    const removeDynamic = this.#controller.addDynamicWatches?.(add);
    if (removeDynamic !== undefined) this.#removers.push(removeDynamic);
  }

  unsubscribe(): void {
    for (const remove of this.#removers.splice(0)) remove();
  }

  async reconcile(
    key: string,
    { failures, spanContext }: { readonly failures: number; readonly spanContext?: SpanContext },
  ): Promise<ReconcileResult | void> {
    const { threadClient, log } = this.#options;
    const { signal } = this.#stop;
    for (const { informer } of this.#controller.watches) if (!informer.hasSynced) await informer.whenSynced(signal);
    const span = noTracer.startSpan('reconcile');
    return this.#controller.reconcile(key, { client: threadClient.client(spanContext), log, signal, span, failures });
  }

  #follow({ informer, keys }: ControllerWatch): () => void {
    const { send } = this.#options;
    const enqueue = (list: Iterable<string>, spanContext: SpanContext | undefined): void =>
      send({ type: 'keys', keys: [...list], ...(spanContext && { spanContext }) });
    return informer.addEventHandler({
      onAdd: (object, spanContext) => enqueue(keys(object, undefined), spanContext),
      onUpdate: (object, old, spanContext) => enqueue(keys(object, old), spanContext),
      onDelete: (object, spanContext) => enqueue(keys(object, undefined), spanContext),
    });
  }
}
