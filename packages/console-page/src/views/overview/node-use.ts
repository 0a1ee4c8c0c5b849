import type { ApiClient, ObjectList } from '../../api/client.ts';
import { quantity } from '../../components/quantity.ts';

interface NodeMetrics {
  readonly metadata: { readonly name: string };
  readonly usage?: { readonly cpu?: string; readonly memory?: string };
}
/** What a node uses, in cores and bytes. */
export interface NodeUse {
  readonly cpu: number;
  readonly memory: number;
}

/** metrics.k8s.io offers no watch; the metrics server scrapes nodes every 15 seconds. */
export const samplePeriodMs = 15_000;

/** Returns true if the server serves the use of nodes. */
export const servesNodeUse = (resources: readonly { readonly group: string; readonly resource: string }[]): boolean =>
  resources.some(({ group, resource }) => group === 'metrics.k8s.io' && resource === 'nodes');

/** Returns the use of the nodes that have metrics, by name. */
export async function readNodeUse(client: Pick<ApiClient, 'json'>, signal: AbortSignal): Promise<ReadonlyMap<string, NodeUse>> {
  const { items } = await client.json<ObjectList<NodeMetrics>>('/apis/metrics.k8s.io/v1beta1/nodes', { signal });
  return new Map(items.map(({ metadata: { name }, usage }) => [name, { cpu: quantity(usage?.cpu), memory: quantity(usage?.memory) }]));
}
