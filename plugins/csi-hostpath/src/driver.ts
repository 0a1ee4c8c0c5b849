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
  /** The path of the driver's CSI socket. */
  readonly endpoint: string;
  readonly nodeId: string;
  /** The directory of the volumes and of their state files. */
  readonly dataDir: string;
  /** The total capacity of all volumes in bytes. */
  readonly capacityBytes: number;
  readonly version: string;
  /** True if a volume must be attached to a node (ControllerPublishVolume) before the node can use it. */
  readonly attach?: boolean;
  /** True if all nodes share the data directory. Volumes are then accessible from every node, and one process serves the controller service. */
  readonly shared?: boolean;
  /** The names of the parameters that ControllerModifyVolume may change. */
  readonly mutable?: readonly string[];
  /** The maximum number of volumes per node; 0 for no limit. */
  readonly maxVolumes?: number;
  /** True if volumes that are directories require NodeExpandVolume, as file systems on devices do. */
  readonly nodeExpansion?: boolean;
  /** The faults to inject into CSI calls, for tests. */
  readonly faults?: Faults;
  now(): number;
  failed?(path: string, error: unknown): void;
}

/** Serves a CSI driver whose volumes are directories and files of this machine. The returned object stops the driver. */
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
