import type { KubeObject } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import { apiServices, customResourceDefinitions } from '@oarlock/api/resources';
import type { Clock } from '@oarlock/primitives/clock';
import type { Client } from '@oarlock/spi/client';

/** Delay in milliseconds after a watch that failed: its user may not read definitions, or the server has none. */
const retryMs = 30_000;
/** Delay in milliseconds after a watch that the server ended. */
const renewMs = 1_000;

/** Watches the objects that add resources to an API server, CustomResourceDefinitions and APIServices, while there are listeners. */
export class DefinitionWatch {
  readonly #client: Client;
  readonly #clock: Clock;
  readonly #listeners = new Set<() => void>();
  #running: AbortController | undefined;

  constructor(client: Client, clock: Clock) {
    this.#client = client;
    this.#clock = clock;
  }

  /** Calls the listener after each change. Returns a function that removes the listener. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    if (this.#running === undefined) {
      this.#running = new AbortController();
      for (const resource of [customResourceDefinitions, apiServices]) void this.#watch(resource as Resource, this.#running.signal);
    }
    return () => {
      this.#listeners.delete(listener);
      if (this.#listeners.size > 0) return;
      this.#running?.abort();
      this.#running = undefined;
    };
  }

  async #watch(resource: Resource, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      let delayMs = renewMs;
      try {
        for await (const _ of this.#client.watch<KubeObject>(resource, { signal })) for (const listener of this.#listeners) listener();
      } catch {
        delayMs = retryMs; // listeners also repeat their request on an interval
      }
      await this.#clock.sleep(delayMs, signal).catch(() => undefined);
    }
  }
}
