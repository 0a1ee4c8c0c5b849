import { Gauge, type Registry } from 'prom-client';
import type { VolumeUsage } from '@oarlock/spi/volume';
import type { Kubelet } from '../../kubelet/kubelet.ts';

interface ClaimUsage {
  readonly labels: { readonly namespace: string; readonly persistentvolumeclaim: string };
  readonly usage: VolumeUsage;
}
/** The usage of PersistentVolumeClaims, keyed by `namespace/name`. */
type Claims = ReadonlyMap<string, ClaimUsage>;

/** Upstream's metrics of PersistentVolumeClaims. As upstream, the value is 0 if the volume driver does not report it. */
const series: readonly { readonly name: string; readonly help: string; readonly of: (usage: VolumeUsage) => number | undefined }[] = [
  { name: 'capacity_bytes', help: 'Capacity in bytes of the volume', of: ({ capacityBytes = 0 }) => capacityBytes },
  { name: 'available_bytes', help: 'Number of available bytes in the volume', of: ({ availableBytes = 0 }) => availableBytes },
  { name: 'used_bytes', help: 'Number of used bytes in the volume', of: ({ usedBytes = 0 }) => usedBytes },
  { name: 'inodes', help: 'Maximum number of inodes in the volume', of: ({ inodes = 0 }) => inodes },
  { name: 'inodes_free', help: 'Number of free inodes in the volume', of: ({ inodesFree = 0 }) => inodesFree },
  { name: 'inodes_used', help: 'Number of used inodes in the volume', of: ({ inodesUsed = 0 }) => inodesUsed },
  {
    name: 'health_status_abnormal',
    help: 'Abnormal volume health status. The count is either 1 or 0. 1 indicates the volume is unhealthy, 0 indicates volume is healthy',
    of: ({ condition }) => condition && Number(condition.abnormal),
  },
];

/** Registers the metrics `kubelet_volume_stats_*`, which cover only volumes of PersistentVolumeClaims. */
export function registerVolumeClaimMetrics(kubelet: Kubelet, registry: Registry): void {
  let measuring: Promise<Claims> | undefined;
  // all metrics of a scrape share one measurement
  const claims = () => (measuring ??= measureClaims(kubelet).finally(() => (measuring = undefined)));
  for (const { name, help, of } of series)
    new Gauge({
      name: `kubelet_volume_stats_${name}`,
      help,
      registers: [registry],
      labelNames: ['namespace', 'persistentvolumeclaim'],
      async collect() {
        const found = await claims();
        this.reset();
        for (const { labels, usage } of found.values()) {
          const number = of(usage);
          if (number !== undefined) this.set(labels, number);
        }
      },
    });
}

async function measureClaims({ agents, context, runtimes }: Kubelet): Promise<Claims> {
  // there may be very many pods on hollow runtimes, which have no volumes on disk
  if ([...runtimes].every(({ hollow }) => hollow)) return new Map();
  const workers = [...agents.values()].flatMap(({ pods }) => [...pods.workers]);
  const stats = await Promise.all(
    workers
      .filter(({ record }) => record.runtime?.hollow === false)
      .map(({ record }) => context.volumeStats.volumeStats(record, ({ claimed }) => claimed.claim !== undefined)),
  );
  const claims = new Map<string, ClaimUsage>();
  for (const { volume, usage } of stats.flat()) {
    const { namespace = '', name = '' } = volume.claimed.claim?.metadata ?? {};
    const key = `${namespace}/${name}`;
    // pods may share a volume
    if (!claims.has(key)) claims.set(key, { labels: { namespace, persistentvolumeclaim: name }, usage });
  }
  return claims;
}
