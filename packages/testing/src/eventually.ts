import { objectKey, type KubeObject, type ObjectKey } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import { systemClock, type Clock } from '@oarlock/primitives/clock';
import type { Client } from '@oarlock/spi/client';

export interface EventuallyOptions {
  readonly namespace?: string;
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
  /** Milliseconds after which the call rejects. Default 30,000. */
  readonly timeoutMs?: number;
  /** The clock of the timeout. Default: the system's. */
  readonly clock?: Clock;
}

/**
 * Waits until an assertion about the objects of a resource passes, and returns what it returned. Runs the assertion after each change of an object, not
 * on an interval. Objects are sorted by namespace and name.
 * @throws the last error of the assertion, after the timeout
 */
export async function eventually<T extends KubeObject, R>(
  { client }: { readonly client: Client },
  resource: Resource<T>,
  { assert, timeoutMs = 30_000, clock = systemClock, ...selection }: EventuallyOptions & { assert(objects: readonly T[]): R | Promise<R> },
): Promise<R> {
  const ended = new AbortController();
  const timer = clock.after(timeoutMs, () => ended.abort());
  let failure: unknown = new Error(`the API server did not list ${resource.resource} within ${timeoutMs} ms`);
  try {
    while (!ended.signal.aborted) {
      const objects = new Map<ObjectKey, T>();
      let isComplete = false;
      for await (const batch of client.watch(resource, { ...selection, signal: ended.signal, sendInitialEvents: true })) {
        for (const { type, object } of batch) {
          if (type === 'BOOKMARK') isComplete ||= object.metadata?.annotations?.['k8s.io/initial-events-end'] === 'true';
          else if (type === 'DELETED') objects.delete(objectKey(object));
          else objects.set(objectKey(object), object);
        }
        if (!isComplete) continue;
        try {
          return await assert([...objects.entries()].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, object]) => object));
        } catch (error) {
          failure = error;
        }
      }
    }
  } finally {
    timer.cancel();
    ended.abort();
  }
  throw failure;
}
