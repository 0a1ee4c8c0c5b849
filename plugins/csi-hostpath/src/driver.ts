import { serveUnix, type Methods } from '@oarlock/grpc/unix-server';
import { csiTable } from '@oarlock/csi/csi-messages';
import { controllerService } from './services/controller-service.ts';
import type { Faults } from './faults.ts';
import { nodeService } from './services/node-service.ts';
import { VolumeLocks } from './services/volume-locks.ts';
import { Publications } from './store/publications.ts';
import { Stagings } from './store/stagings.ts';
import { VolumeStore } from './store/volume-store.ts';

export interface DriverOptions {
  readonly name: string;
  /** Path of the driver's socket. */
  readonly endpoint: string;
  readonly nodeId: string;
  /** The directory of volumes and their state. */
  readonly dataDir: string;
  /** The capacity that all volumes together may have. Bytes. */
  readonly capacityBytes: number;
  readonly version: string;
  /** True if volumes have to be attached before they are used. */
  readonly attach?: boolean;
  /** True if all nodes share the data directory: volumes are accessible from each, and one process is the controller of all. */
  readonly shared?: boolean;
  /** Names of parameters that ControllerModifyVolume may change. */
  readonly mutable?: readonly string[];
  /** How many volumes a node may have; 0 for no limit. */
  readonly maxVolumes?: number;
  /** True if directories require NodeExpandVolume as well, as file systems on devices do. */
  readonly nodeExpansion?: boolean;
  /** Faults to inject, for tests. */
  readonly faults?: Faults;
  now(): number;
  failed?(path: string, error: unknown): void;
}

/** Serves a CSI driver whose volumes are directories and files of this machine, until closed. */
export async function driver(options: DriverOptions): Promise<{ close(): Promise<void> }> {
  const { name, endpoint, nodeId, dataDir, capacityBytes, version, now, failed, faults } = options;
  const { attach = false, shared = false, mutable = [], maxVolumes = 0, nodeExpansion = false } = options;
  const store = await VolumeStore.open(dataDir, { shared });
  const publications = new Publications(store.directory);
  const stagings = new Stagings(store.directory);
  const topology = shared ? undefined : { segments: { [`topology.${name}/node`]: nodeId } };
  const newLocks = () => new VolumeLocks(faults && (() => faults.within()));
  const common = { store, publications, nodeId, topology, attach, maxVolumes };
  const services: Readonly<Record<string, Methods>> = {
    'csi.v1.Identity': {
      GetPluginInfo: () => ({ name, vendorVersion: version }),
      GetPluginCapabilities: () => ({
        capabilities: [
          { service: { type: 'CONTROLLER_SERVICE' } },
          ...(shared ? [] : [{ service: { type: 'VOLUME_ACCESSIBILITY_CONSTRAINTS' } }]),
          { volumeExpansion: { type: 'ONLINE' } },
        ],
      }),
      Probe: () => ({ ready: { value: true } }),
    },
    'csi.v1.Controller': controllerService({ ...common, capacityBytes, now, mutable, nodeExpansion, locks: newLocks() }),
    'csi.v1.Node': nodeService({ ...common, stagings, locks: newLocks() }),
  };
  return serveUnix({
    socket: endpoint,
    table: csiTable,
    services:
      faults === undefined
        ? services
        : Object.fromEntries(Object.entries(services).map(([service, methods]) => [service, faults.around(methods)])),
    ...(failed && { onError: failed }),
  });
}
