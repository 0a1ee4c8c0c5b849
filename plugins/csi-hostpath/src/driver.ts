import { unixServer } from '@oarlock/grpc/unix-server';
import { csiTable } from '@oarlock/csi/csi-messages';
import { controllerService } from './controller-service.ts';
import { nodeService } from './node-service.ts';
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
  now(): number;
  failed?(path: string, error: unknown): void;
}

/** Serves a CSI driver whose volumes are directories and files of this machine, until it is closed. */
export async function driver(options: DriverOptions): Promise<{ close(): Promise<void> }> {
  const { name, endpoint, nodeId, dataDir, capacityBytes, version, now, failed } = options;
  const store = await VolumeStore.open(dataDir);
  const topology = { segments: { [`topology.${name}/node`]: nodeId } };
  return unixServer({
    socket: endpoint,
    table: csiTable,
    services: {
      'csi.v1.Identity': {
        GetPluginInfo: () => ({ name, vendorVersion: version }),
        GetPluginCapabilities: () => ({
          capabilities: [
            { service: { type: 'CONTROLLER_SERVICE' } },
            { service: { type: 'VOLUME_ACCESSIBILITY_CONSTRAINTS' } },
            { volumeExpansion: { type: 'ONLINE' } },
          ],
        }),
        Probe: () => ({ ready: { value: true } }),
      },
      'csi.v1.Controller': controllerService({ store, topology, capacityBytes, now }),
      'csi.v1.Node': nodeService({ store, nodeId, topology }),
    },
    ...(failed && { failed }),
  });
}
