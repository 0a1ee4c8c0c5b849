import { isStatus } from '@oarlock/api/status';
import { milliValue, quantityValue } from '@oarlock/api/values/quantity';
import type { Client } from '@oarlock/spi/client';

export interface Usage {
  readonly cpuMillicores: number;
  readonly memoryBytes: number;
}
/** The use of nodes by name and of pods by `namespace/name`. */
export interface UsageSnapshot {
  readonly nodes: ReadonlyMap<string, Usage>;
  readonly pods: ReadonlyMap<string, Usage>;
  /** Why there are no figures. */
  readonly missing?: string;
}

type Quantities = Readonly<Record<string, string>>;
interface Metrics {
  readonly metadata: { readonly namespace?: string; readonly name: string };
  readonly usage?: Quantities;
  readonly containers?: readonly { readonly usage: Quantities }[];
}
interface MetricsList {
  readonly items: readonly Metrics[];
}

const root = '/apis/metrics.k8s.io/v1beta1';
const usageOf = ({ cpu = '0', memory = '0' }: Quantities): Usage => ({
  cpuMillicores: milliValue(cpu),
  memoryBytes: quantityValue(memory),
});

/** Returns the sum of the containers of a pod. */
const podUsage = ({ containers = [] }: Metrics): Usage =>
  containers
    .map(({ usage }) => usageOf(usage))
    .reduce(
      (sum, { cpuMillicores, memoryBytes }) => ({
        cpuMillicores: sum.cpuMillicores + cpuMillicores,
        memoryBytes: sum.memoryBytes + memoryBytes,
      }),
      {
        cpuMillicores: 0,
        memoryBytes: 0,
      },
    );

export const noUsage: UsageSnapshot = { nodes: new Map(), pods: new Map() };

/**
 * Reads metrics.k8s.io, which has no watch. Without permission, or without the API, returns the reason instead of figures. A user of one namespace receives the
 * figures of its pods, without those of nodes.
 */
export async function readUsage(client: Client, namespace: string | undefined, signal?: AbortSignal): Promise<UsageSnapshot> {
  const scope = namespace === undefined ? '' : `/namespaces/${encodeURIComponent(namespace)}`;
  const [nodes, pods] = await Promise.all([readMetrics(client, '/nodes', signal), readMetrics(client, `${scope}/pods`, signal)]);
  const missing = pods.missing ?? nodes.missing;
  return {
    nodes: new Map(nodes.items.map(({ metadata, usage = {} }) => [metadata.name, usageOf(usage)])),
    pods: new Map(pods.items.map((metrics) => [`${metrics.metadata.namespace ?? ''}/${metrics.metadata.name}`, podUsage(metrics)])),
    ...(missing !== undefined && { missing }),
  };
}

async function readMetrics(
  client: Client,
  path: string,
  signal: AbortSignal | undefined,
): Promise<MetricsList & { readonly missing?: string }> {
  try {
    return (await client.raw('GET', `${root}${path}`, undefined, signal && { signal })) as MetricsList;
  } catch (error) {
    if (isStatus(error, 'NotFound')) return { items: [], missing: 'the cluster serves no metrics.k8s.io' };
    if (isStatus(error)) return { items: [], missing: error.message };
    throw error;
  }
}
