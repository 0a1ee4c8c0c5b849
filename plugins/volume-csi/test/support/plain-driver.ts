import { cp, mkdir, readdir, rm, symlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { ControllerRpc, NodeRpc } from '@oarlock/csi/csi-messages';
import { csiTable } from '@oarlock/csi/csi-messages';
import { GrpcError } from '@oarlock/grpc/grpc-error';
import { serveUnix, type Methods } from '@oarlock/grpc/unix-server';

export const plainDriverName = 'plain.csi.example.com';

export interface PlainDriverOptions {
  /** How many CreateSnapshot or ListSnapshots calls return a snapshot that is not ready. */
  readonly callsUntilReady?: number;
  readonly listsSnapshots?: boolean;
  readonly maxVolumesPerNode?: number;
  /** False for the driver on a node whose controller service runs elsewhere. */
  readonly controller?: boolean;
  /** The segments of the node's topology; without them the driver has no topology. */
  readonly topology?: Readonly<Record<string, string>>;
  /** Capabilities of the controller service besides those to create volumes and snapshots. */
  readonly controllerCapabilities?: readonly ControllerRpc[];
  readonly nodeCapabilities?: readonly NodeRpc[];
  /** Returns the answer to GetCapacity for a topology. */
  capacity?(segments: Readonly<Record<string, string>>): number;
  /** True if the driver takes groups of snapshots. */
  readonly groups?: boolean;
  /** Replace the answers of the driver, by method. */
  readonly answers?: Readonly<Record<string, (answer: Answer, request: Answer) => object | Promise<object>>>;
}
/** A message as plain data, with the types of the fields that tests change. A message has only the fields of its kind. */
export interface Answer {
  readonly volume: { readonly volumeId: string };
  readonly groupSnapshot: { readonly snapshots: readonly object[] };
  readonly volumeId: string;
  readonly [field: string]: unknown;
}

interface Snapshot {
  readonly id: string;
  readonly volumeId: string;
  calls: number;
}

/**
 * A CSI driver with other capabilities than csi-hostpath: volumes are published without staging and attachment, are not expanded, cloned or measured, and
 * snapshots become ready some time after they were taken, as with storage that copies them.
 */
export class PlainDriver {
  readonly #options: PlainDriverOptions;
  readonly #snapshots = new Map<string, Snapshot>();
  /** The calls that the driver has answered, such as `CreateSnapshot`. */
  readonly calls: string[] = [];
  /** The requests of the calls, by method. */
  readonly requests: { readonly method: string; readonly request: Answer }[] = [];

  constructor(options: PlainDriverOptions = {}) {
    this.#options = options;
  }

  get snapshotIds(): readonly string[] {
    return [...this.#snapshots.values()].map(({ id }) => id);
  }

  serve(endpoint: string, directory: string): Promise<{ close(): Promise<void> }> {
    const { controller = true } = this.#options;
    return serveUnix({
      socket: endpoint,
      table: csiTable,
      services: {
        'csi.v1.Identity': this.#identity(controller),
        ...(controller && { 'csi.v1.Controller': this.#recorded({ ...this.#volumes(directory), ...this.#snapshotMethods(directory) }) }),
        ...(this.#options.groups === true && { 'csi.v1.GroupController': this.#recorded(this.#groupMethods(directory)) }),
        'csi.v1.Node': this.#recorded(this.#node(directory)),
      },
    });
  }

  #recorded(methods: Methods): Methods {
    return Object.fromEntries(
      Object.entries(methods).map(([name, method]) => [
        name,
        async (...args: Parameters<typeof method>) => {
          this.calls.push(name);
          this.requests.push({ method: name, request: args[0] as Answer });
          const answer = await method(...args);
          return this.#options.answers?.[name]?.(answer as Answer, args[0] as Answer) ?? answer;
        },
      ]),
    );
  }

  #identity(controller: boolean): Methods {
    const { topology, groups = false } = this.#options;
    const services = [
      ...(groups ? ['GROUP_CONTROLLER_SERVICE'] : []),
      ...(controller ? ['CONTROLLER_SERVICE'] : []),
      ...(topology ? ['VOLUME_ACCESSIBILITY_CONSTRAINTS'] : []),
    ];
    return {
      GetPluginInfo: () => ({ name: plainDriverName, vendorVersion: '1' }),
      GetPluginCapabilities: () => ({ capabilities: services.map((type) => ({ service: { type } })) }),
      Probe: () => ({}),
    };
  }

  #volumes(directory: string): Methods {
    const { listsSnapshots = false, topology, controllerCapabilities = [] } = this.#options;
    const capabilities: readonly ControllerRpc[] = [
      'CREATE_DELETE_VOLUME',
      'CREATE_DELETE_SNAPSHOT',
      ...(listsSnapshots ? (['LIST_SNAPSHOTS'] as const) : []),
      ...controllerCapabilities,
    ];
    return {
      ControllerGetCapabilities: () => ({ capabilities: capabilities.map((type) => ({ rpc: { type } })) }),
      CreateVolume: async ({
        name,
        capacityRange,
        volumeContentSource,
      }: {
        readonly name: string;
        readonly capacityRange?: { readonly requiredBytes: number };
        readonly volumeContentSource?: {
          readonly snapshot?: { readonly snapshotId: string };
          readonly volume?: { readonly volumeId: string };
        };
      }) => {
        const path = join(directory, 'volumes', name);
        const { snapshot, volume } = volumeContentSource ?? {};
        await mkdir(path, { recursive: true });
        if (snapshot !== undefined) await cp(join(directory, 'snapshots', snapshot.snapshotId), path, { recursive: true });
        if (volume !== undefined) await cp(join(directory, 'volumes', volume.volumeId), path, { recursive: true });
        return {
          volume: {
            volumeId: name,
            capacityBytes: capacityRange?.requiredBytes ?? 0,
            ...(volumeContentSource && { contentSource: volumeContentSource }),
            ...(topology && { accessibleTopology: [{ segments: topology }] }),
          },
        };
      },
      DeleteVolume: async ({ volumeId }: { readonly volumeId: string }) => {
        await rm(join(directory, 'volumes', volumeId), { recursive: true, force: true });
        return {};
      },
      ControllerPublishVolume: () => ({ publishContext: {} }),
      ControllerUnpublishVolume: () => ({}),
      ControllerExpandVolume: ({ capacityRange }: { readonly capacityRange?: { readonly requiredBytes: number } }) => ({
        capacityBytes: capacityRange?.requiredBytes ?? 0,
        nodeExpansionRequired: true,
      }),
      ControllerModifyVolume: () => ({}),
      // their answers are those of the options
      ListVolumes: () => ({}),
      ControllerGetVolume: () => ({}),
      GetCapacity: ({ accessibleTopology }: { readonly accessibleTopology?: { readonly segments: Readonly<Record<string, string>> } }) => ({
        availableCapacity: this.#options.capacity?.(accessibleTopology?.segments ?? {}) ?? 0,
      }),
    };
  }

  #message(snapshot: Snapshot) {
    const { callsUntilReady = 0 } = this.#options;
    return {
      snapshotId: snapshot.id,
      sourceVolumeId: snapshot.volumeId,
      sizeBytes: 2 ** 20,
      creationTime: { seconds: 1_700_000_000, nanos: 1 },
      readyToUse: snapshot.calls++ >= callsUntilReady,
    };
  }
  async #take(directory: string, name: string, volumeId: string): Promise<Snapshot> {
    const existing = this.#snapshots.get(name);
    if (existing) return existing;
    const volume = join(directory, 'volumes', volumeId);
    await readdir(volume).catch(() => {
      throw new GrpcError('NOT_FOUND', `no volume ${volumeId}`);
    });
    const created: Snapshot = { id: `id-of-${name}`, volumeId, calls: 0 };
    await cp(volume, join(directory, 'snapshots', created.id), { recursive: true });
    this.#snapshots.set(name, created);
    return created;
  }

  #groupMethods(directory: string): Methods {
    const message = (groupSnapshotId: string) => {
      const snapshots = [...this.#snapshots]
        .filter(([name]) => name.startsWith(`${groupSnapshotId}/`))
        .map(([, each]) => this.#message(each));
      if (snapshots.length === 0) throw new GrpcError('NOT_FOUND', `no group ${groupSnapshotId}`);
      const readyToUse = snapshots.every((each) => each.readyToUse);
      return { groupSnapshot: { groupSnapshotId, snapshots, creationTime: { seconds: 1_700_000_000, nanos: 0 }, readyToUse } };
    };
    return {
      GroupControllerGetCapabilities: () => ({ capabilities: [{ rpc: { type: 'CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT' } }] }),
      CreateVolumeGroupSnapshot: async ({
        name,
        sourceVolumeIds,
      }: {
        readonly name: string;
        readonly sourceVolumeIds: readonly string[];
      }) => {
        for (const id of sourceVolumeIds) await this.#take(directory, `${name}/${id}`, id);
        return message(name);
      },
      GetVolumeGroupSnapshot: ({ groupSnapshotId }: { readonly groupSnapshotId: string }) => message(groupSnapshotId),
      DeleteVolumeGroupSnapshot: ({ groupSnapshotId }: { readonly groupSnapshotId: string }) => {
        for (const name of this.#snapshots.keys()) if (name.startsWith(`${groupSnapshotId}/`)) this.#snapshots.delete(name);
        return {};
      },
    };
  }

  #snapshotMethods(directory: string): Methods {
    const { listsSnapshots = false } = this.#options;
    const message = (snapshot: Snapshot) => this.#message(snapshot);
    return {
      CreateSnapshot: async ({ name, sourceVolumeId }: { readonly name: string; readonly sourceVolumeId: string }) => ({
        snapshot: message(await this.#take(directory, name, sourceVolumeId)),
      }),
      DeleteSnapshot: ({ snapshotId }: { readonly snapshotId: string }) => {
        for (const [name, { id }] of this.#snapshots) if (id === snapshotId) this.#snapshots.delete(name);
        return {};
      },
      ...(listsSnapshots && {
        ListSnapshots: ({ snapshotId }: { readonly snapshotId: string }) => ({
          entries: [...this.#snapshots.values()].filter(({ id }) => id === snapshotId).map((each) => ({ snapshot: message(each) })),
        }),
      }),
    };
  }

  #node(directory: string): Methods {
    const { maxVolumesPerNode = 0, topology, nodeCapabilities = [] } = this.#options;
    return {
      NodeGetInfo: () => ({ nodeId: 'plain-node', maxVolumesPerNode, ...(topology && { accessibleTopology: { segments: topology } }) }),
      NodeGetCapabilities: () => ({ capabilities: nodeCapabilities.map((type) => ({ rpc: { type } })) }),
      NodeExpandVolume: () => ({}),
      NodeStageVolume: () => ({}),
      NodeUnstageVolume: () => ({}),
      // a link in place of a mount, so that the tests need no privileges
      NodePublishVolume: async ({ volumeId, targetPath }: { readonly volumeId: string; readonly targetPath: string }) => {
        await mkdir(dirname(targetPath), { recursive: true });
        await rm(targetPath, { recursive: true, force: true });
        await symlink(join(directory, 'volumes', volumeId), targetPath);
        return {};
      },
      NodeUnpublishVolume: async ({ targetPath }: { readonly targetPath: string }) => {
        await rm(targetPath, { recursive: true, force: true });
        return {};
      },
    };
  }
}
