import type { PersistentVolume, Volume } from '@oarlock/api/types/core-v1';
import type { Clock } from '@oarlock/primitives/clock';
import { Gauge, Histogram, type Registry } from 'prom-client';

/** Upstream's buckets of storage operations, from 0.1 s to 10 minutes. Seconds. */
const buckets = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600];

/** Upstream's names of volume plugins that differ from `kubernetes.io/` and the field of the volume source. */
const pluginNames: Readonly<Record<string, string>> = {
  emptyDir: 'empty-dir',
  hostPath: 'host-path',
  local: 'local-volume',
  configMap: 'configmap',
  downwardAPI: 'downward-api',
};

/** Returns the value of the labels `plugin_name` and `volume_plugin`. The name of a CSI volume ends with its driver, as upstream. */
export function volumePluginName(driver: string, volume?: Volume, persistentVolume?: PersistentVolume): string {
  const csi = volume?.csi?.driver ?? persistentVolume?.spec?.csi?.driver;
  return csi === undefined ? `kubernetes.io/${pluginNames[driver] ?? driver}` : `kubernetes.io/csi:${csi}`;
}

/** The metrics of mounts and unmounts of volumes, and of the removal of orphaned pods. */
export class StorageMetrics {
  readonly #clock: Clock;
  readonly #duration: Histogram<'volume_plugin' | 'operation_name' | 'status' | 'migrated'>;
  readonly #cleaned: Gauge;
  readonly #cleanupErrors: Gauge;

  constructor(registers: Registry[], clock: Clock) {
    this.#clock = clock;
    this.#duration = new Histogram({
      name: 'storage_operation_duration_seconds',
      help: 'Storage operation duration',
      registers,
      buckets,
      labelNames: ['volume_plugin', 'operation_name', 'status', 'migrated'],
    });
    const orphans = (name: string, help: string) => new Gauge({ name: `kubelet_orphan_pod_cleaned_${name}`, help, registers });
    this.#cleaned = orphans('volumes', 'The total number of orphaned Pods whose volumes were cleaned in the last periodic sweep.');
    this.#cleanupErrors = orphans(
      'volumes_errors',
      'The number of orphaned Pods whose volumes failed to be cleaned in the last periodic sweep.',
    );
  }

  /** Runs and observes an operation. Returns its result. No volume is migrated from an in-tree plugin to CSI. */
  async observe<T>(operation: 'volume_mount' | 'volume_unmount', plugin: string, work: () => Promise<T>): Promise<T> {
    const from = this.#clock.monotonic();
    let status = 'fail-unknown';
    try {
      const result = await work();
      status = 'success';
      return result;
    } finally {
      const seconds = (this.#clock.monotonic() - from) / 1000;
      this.#duration.observe({ volume_plugin: plugin, operation_name: operation, status, migrated: 'false' }, seconds);
    }
  }

  /** Sets the result of a sweep over the directories of orphaned pods. */
  orphansSwept(cleaned: number, failed: number): void {
    this.#cleaned.set(cleaned);
    this.#cleanupErrors.set(failed);
  }
}
