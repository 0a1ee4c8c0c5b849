import { nodes, pods } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { Client } from '@oarlock/spi/client';

const mirrorAnnotation = 'kubernetes.io/config.mirror';
/** Interval in milliseconds between attempts to evict a pod that a PodDisruptionBudget protects, as for kubectl. */
const retryMs = 5_000;

export type DrainClient = Pick<Client, 'list' | 'watch' | 'raw'>;

export interface DrainOptions {
  readonly client: DrainClient;
  /** Aborted when the time for the drain is over. */
  readonly signal: AbortSignal;
  readonly log: (line: string) => void;
}

/** Marks a node as unschedulable. */
export const cordon = (client: Client, name: string) => client.patch(nodes, { name }, 'merge', { spec: { unschedulable: true } });

/**
 * Evicts the pods of a node and waits until they have ended, except pods of DaemonSets and mirror pods of static ones.
 * @throws the reason of `signal`
 */
export async function drain(node: string, { client, signal, log }: DrainOptions): Promise<void> {
  const scope = { fieldSelector: `spec.nodeName=${node}` };
  for (;;) {
    signal.throwIfAborted();
    const { items, metadata } = await client.list<Pod>(pods, scope);
    const remaining = items.filter(isEvictable);
    if (remaining.length === 0) return;
    for (const pod of remaining) if (pod.metadata?.deletionTimestamp === undefined) await evict(pod, { client, log });
    await nextChange(client, { ...scope, resourceVersion: metadata?.resourceVersion ?? '', signal });
  }
}

function isEvictable({ metadata }: Pod): boolean {
  const isDaemon = metadata?.ownerReferences?.some(({ kind, controller }) => kind === 'DaemonSet' && controller === true) ?? false;
  return !isDaemon && metadata?.annotations?.[mirrorAnnotation] === undefined;
}

async function evict({ metadata }: Pod, { client, log }: Pick<DrainOptions, 'client' | 'log'>): Promise<void> {
  const { namespace = '', name = '' } = metadata ?? {};
  const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(name)}/eviction`;
  try {
    await client.raw('POST', path, { apiVersion: 'policy/v1', kind: 'Eviction', metadata: { namespace, name } });
    log(`evicting pod ${namespace}/${name}`);
  } catch (error) {
    if (isStatus(error, 'NotFound')) return;
    if (!isStatus(error, 'TooManyRequests')) throw error;
    log(`pod ${namespace}/${name}: ${(error as Error).message}`);
  }
}

/** Resolves when a pod of the scope changes, at the latest when it is time for another attempt. */
async function nextChange(
  client: DrainClient,
  { signal, ...scope }: { readonly fieldSelector: string; readonly resourceVersion: string; readonly signal: AbortSignal },
): Promise<void> {
  const until = AbortSignal.any([signal, AbortSignal.timeout(retryMs)]);
  try {
    for await (const events of client.watch<Pod>(pods, { ...scope, signal: until }))
      if (events.some(({ type }) => type === 'DELETED')) return;
  } catch (error) {
    if (!isStatus(error, 'Expired') && !isStatus(error, 'ServiceUnavailable')) throw error;
  }
}
