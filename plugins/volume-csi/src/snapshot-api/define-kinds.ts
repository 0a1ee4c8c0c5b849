import { customResourceDefinitions } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { CustomResourceDefinition } from '@oarlock/api/types/apiextensions-v1';
import type { Client, Informers } from '@oarlock/spi/client';

/**
 * Creates CustomResourceDefinitions and waits until they are served. Existing ones are not changed; on a node that may not create them,
 * only waits.
 */
export async function defineKinds(
  definitions: readonly CustomResourceDefinition[],
  { client, informers, signal }: { readonly client: Client; readonly informers: Informers; readonly signal: AbortSignal },
): Promise<void> {
  for (const definition of definitions)
    await client.create(customResourceDefinitions, definition, { signal }).catch((error: unknown) => {
      if (!isStatus(error, 'AlreadyExists', 'Forbidden')) throw error;
    });
  const waited = new Set(definitions.map(({ metadata }) => metadata?.name ?? ''));
  const informer = informers.forResource(customResourceDefinitions);
  await new Promise<void>((resolve, reject) => {
    let off: (() => void) | undefined;
    const abort = () => {
      off?.();
      reject(signal.reason as Error);
    };
    const see = ({ metadata, status }: CustomResourceDefinition) => {
      const is = status?.conditions?.some(({ type, status: now }) => type === 'Established' && now === 'True') === true;
      if (!is || !waited.delete(metadata?.name ?? '') || waited.size > 0) return;
      signal.removeEventListener('abort', abort);
      off?.();
      resolve();
    };
    signal.addEventListener('abort', abort, { once: true });
    off = informer.addEventHandler({ onAdd: see, onUpdate: see });
    if (waited.size === 0) off();
  });
}
