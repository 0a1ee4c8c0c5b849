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

/** Reads metrics.k8s.io, which has no watch. Without permission, or without the API, returns the reason instead of figures. */
export async function readUsage(client: Client, namespace: string | undefined, signal?: AbortSignal): Promise<UsageSnapshot> {
  const options = signal && { signal };
  const scope = namespace === undefined ? '' : `/namespaces/${encodeURIComponent(namespace)}`;
  try {
    const [nodes, pods] = (await Promise.all([
      client.raw('GET', `${root}/nodes`, undefined, options),
      client.raw('GET', `${root}${scope}/pods`, undefined, options),
    ])) as [MetricsList, MetricsList];
    return {
      nodes: new Map(nodes.items.map(({ metadata, usage = {} }) => [metadata.name, usageOf(usage)])),
      pods: new Map(pods.items.map((metrics) => [`${metrics.metadata.namespace ?? ''}/${metrics.metadata.name}`, podUsage(metrics)])),
    };
  } catch (error) {
    if (isStatus(error, 'NotFound')) return { ...noUsage, missing: 'the cluster serves no metrics.k8s.io' };
    if (isStatus(error)) return { ...noUsage, missing: error.message };
    throw error;
  }
}
