import type { ApiClient, ObjectList } from '../../api/client.ts';
import { quantity } from '../../components/quantity.ts';
import type { PodSpec } from '../object/workload-kinds.ts';

export interface PodWithRequests {
  readonly spec?: PodSpec;
  readonly status?: { readonly phase?: string };
}

export interface PodRequests {
  readonly count: number;
  readonly cpu?: number;
  readonly memory?: number;
}

export const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

/** Requests are read of at most this number of pods. */
const maxPods = 2_000;
/** The first page contains the number of all pods. It is small, because a list of a large cluster delays all other requests of the view in the server. */
const firstPageSize = 100;
const pageSize = 500;

/** Returns the sum of the requests of the pods on nodes, and their number; the requests are absent in a cluster with too many pods to read them all. */
export async function readPodRequests(client: Pick<ApiClient, 'json'>, signal: AbortSignal): Promise<PodRequests> {
  const pods: PodWithRequests[] = [];
  let next: string | undefined;
  do {
    const query = { limit: pods.length === 0 ? firstPageSize : pageSize, continue: next };
    const { items, metadata } = await client.json<ObjectList<PodWithRequests>>('/api/v1/pods', { query, signal });
    pods.push(...items);
    const count = pods.length + (metadata.remainingItemCount ?? 0);
    if (count > maxPods) return { count };
    next = metadata.continue;
  } while (next !== undefined && next !== '');
  return requestsOnNodes(pods);
}

/** Sums up what pods that use a node request. Pods without a node, such as one that no node can run, use nothing. */
export function requestsOnNodes(pods: readonly PodWithRequests[]): PodRequests {
  const podsOnNodes = pods.filter(
    ({ spec, status }) => (spec?.nodeName ?? '') !== '' && status?.phase !== 'Succeeded' && status?.phase !== 'Failed',
  );
  const requested = (name: string) =>
    sum(podsOnNodes.flatMap(({ spec }) => (spec?.containers ?? []).map(({ resources }) => quantity(resources?.requests?.[name]))));
  return { count: podsOnNodes.length, cpu: requested('cpu'), memory: requested('memory') };
}
