import { apiVersionOf, type Resource } from '@oarlock/api/resource';
import { isStatus } from '@oarlock/api/status';
import type { Clock } from '@oarlock/kernel/clock';
import type { Client } from '@oarlock/spi/client';

export interface Asking {
  readonly client: Client;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

const longestPauseMs = 30_000;

/**
 * Whether an API server has a resource: a cache of one that it does not have would never fill. Asks until the server answers.
 * @throws the reason of the signal when that aborts first
 */
export async function isServed({ client, clock, signal }: Asking, resource: Resource): Promise<boolean> {
  const version = apiVersionOf(resource);
  const path = version.includes('/') ? `/apis/${version}` : `/api/${version}`;
  for (let pause = 500; ; pause = Math.min(2 * pause, longestPauseMs)) {
    signal.throwIfAborted();
    try {
      const { resources = [] } = (await client.raw('GET', path, undefined, { signal })) as {
        readonly resources?: readonly { readonly name: string }[];
      };
      return resources.some(({ name }) => name === resource.resource);
    } catch (error) {
      if (isStatus(error, 'NotFound')) return false;
      await clock.sleep(pause, signal);
    }
  }
}
