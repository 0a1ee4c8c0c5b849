import { customResourceDefinitions } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { CustomResourceDefinition } from '@oarlock/api/types/apiextensions-v1';
import { Backoff } from '@oarlock/primitives/backoff';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { Client } from '@oarlock/spi/client';
import type { Applier } from './applier.ts';

export interface InstallerOptions {
  readonly client: Client;
  readonly clock: Clock;
  readonly log: Logger;
  readonly applier: Applier;
  readonly definition: () => CustomResourceDefinition;
}

/** Applies a CustomResourceDefinition in the background, and retries until the API server accepts it. */
export class DefinitionInstaller {
  readonly #options: InstallerOptions;
  readonly #abort = new AbortController();
  #run: Promise<void> | undefined;

  constructor(options: InstallerOptions) {
    this.#options = options;
  }

  start(): void {
    this.#run = this.#install(this.#abort.signal);
  }

  async stop(): Promise<void> {
    this.#abort.abort();
    await this.#run;
  }

  async #install(signal: AbortSignal): Promise<void> {
    const { client, clock, log, applier, definition: create } = this.#options;
    const backoff = new Backoff({ firstMs: 100, longestMs: 10_000, jitter: 0, random: () => 0 });
    while (!signal.aborted) {
      try {
        const definition = create();
        const { name = '' } = definition.metadata ?? {};
        const cached = await client.get(customResourceDefinitions, { name }, { signal }).catch((error: unknown) => {
          if (isStatus(error, 'NotFound')) return undefined;
          throw error;
        });
        await applier.apply(definition, { client, resource: customResourceDefinitions, cached });
        log.info({ definition: name }, 'applied the definition of the custom resource');
        return;
      } catch (error) {
        if (signal.aborted) return;
        const delayMs = backoff.next();
        // a server that starts rejects the first requests; an invalid definition stays invalid
        log[backoff.failures > 3 || isStatus(error, 'Invalid', 'BadRequest') ? 'warn' : 'debug'](
          { err: error, delayMs },
          'cannot apply the definition of the custom resource; retrying',
        );
        await clock.sleep(delayMs, signal).catch(() => undefined); // stopped
      }
    }
  }
}
