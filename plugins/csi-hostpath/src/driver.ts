import { unixServer, type Methods } from '@oarlock/grpc/unix-server';
import { csiTable } from '@oarlock/csi/csi-messages';
import { controllerService } from './controller-service.ts';
import type { Faults } from './faults.ts';
import { nodeService } from './node-service.ts';
import { OneAtATime } from './one-at-a-time.ts';
import { Publications } from './publications.ts';
import { Stagings } from './stagings.ts';
import { VolumeStore } from './volume-store.ts';

export interface DriverOptions {
  readonly name: string;
  /** A socket. */
  readonly endpoint: string;
  readonly nodeId: string;
  /** Where volumes are. */
  readonly dataDir: string;
  /** What all volumes together may be promised. Bytes. */
  readonly capacityBytes: number;
  readonly version: string;
  /** Whether volumes have to be attached before they are used. */
  readonly attach?: boolean;
  /** The data directory is one that all nodes have: volumes are reached from each, and the controller of one serves all. */
  readonly shared?: boolean;
  /** Names of parameters that ControllerModifyVolume may change. */
  readonly mutable?: readonly string[];
  /** How many volumes a node takes; 0: any number. */
  readonly maxVolumes?: number;
  /** Directories, too, have to be grown on the node after they were by the controller, as file systems on devices have. */
  readonly nodeExpansion?: boolean;
  /** What is to go wrong, for tests. */
  readonly faults?: Faults;
  now(): number;
  failed?(path: string, error: unknown): void;
}

/** Serves a CSI driver whose volumes are directories and files of this machine, until it is closed. */
export async function driver(options: DriverOptions): Promise<{ close(): Promise<void> }> {
  const { name, endpoint, nodeId, dataDir, capacityBytes, version, now, failed, faults } = options;
  const { attach = false, shared = false, mutable = [], maxVolumes = 0, nodeExpansion = false } = options;
  const store = await VolumeStore.open(dataDir, { shared });
  const publications = new Publications(store.directory);
  const stagings = new Stagings(store.directory);
  const topology = shared ? undefined : { segments: { [`topology.${name}/node`]: nodeId } };
  const turns = () => new OneAtATime(faults && (() => faults.within()));
  const parts = { store, publications, nodeId, topology, attach, maxVolumes };
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
    'csi.v1.Controller': controllerService({ ...parts, capacityBytes, now, mutable, nodeExpansion, turns: turns() }),
    'csi.v1.Node': nodeService({ ...parts, stagings, turns: turns() }),
  };
  return unixServer({
    socket: endpoint,
    table: csiTable,
    services:
      faults === undefined
        ? services
        : Object.fromEntries(Object.entries(services).map(([service, methods]) => [service, faults.around(methods)])),
    ...(failed && { failed }),
  });
}
