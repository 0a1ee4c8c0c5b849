import { apiVersionOf, type Resource } from '@oarlock/api/resource';
import { isStatus } from '@oarlock/api/status';
import type { Clock } from '@oarlock/primitives/clock';
import type { Client } from '@oarlock/spi/client';

export interface ResourceServedOptions {
  readonly client: Client;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

const initialRetryDelayMs = 500;
const maxRetryDelayMs = 30_000;

/**
 * Returns whether the API server serves a resource; an informer of a resource that is not served would never sync. Retries until the server
 * responds.
 * @throws the signal's reason if the signal aborts first
 */
export async function isResourceServed({ client, clock, signal }: ResourceServedOptions, resource: Resource): Promise<boolean> {
  const version = apiVersionOf(resource);
  const path = version.includes('/') ? `/apis/${version}` : `/api/${version}`;
  for (let delayMs = initialRetryDelayMs; ; delayMs = Math.min(2 * delayMs, maxRetryDelayMs)) {
    signal.throwIfAborted();
    try {
      const { resources = [] } = (await client.raw('GET', path, undefined, { signal })) as {
        readonly resources?: readonly { readonly name: string }[];
      };
      return resources.some(({ name }) => name === resource.resource);
    } catch (error) {
      if (isStatus(error, 'NotFound')) return false;
      await clock.sleep(delayMs, signal);
    }
  }
}
