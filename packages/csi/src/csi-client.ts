import { UnixClient } from '@oarlock/grpc/unix-client';
import { csiTable, type ControllerRpc, type NodeRpc, type PluginService } from './csi-messages.ts';
import type {
  Capacity,
  ControllerServiceCapability,
  ControllerPublishVolumeRequest,
  CreateSnapshotRequest,
  CreateVolumeRequest,
  CsiSnapshot,
  CsiVolume,
  ExpandVolumeRequest,
  ControllerModifyVolumeRequest,
  NodeServiceCapability,
  NodeInfo,
  PluginCapability,
  PluginInfo,
  NodePublishVolumeRequest,
  NodeStageVolumeRequest,
  Strings,
  Topology,
  VolumeCapability,
  NodeVolumeStats,
} from './csi-types.ts';

export interface CsiCallOptions {
  readonly signal?: AbortSignal | undefined;
}

const timeoutMs = 120_000;

/**
 * A client of the identity, controller and node services of a CSI driver, which share one socket. Every method throws GrpcError if the call
 * fails.
 */
export class CsiClient {
  readonly #client: UnixClient;

  constructor(socket: string) {
    this.#client = new UnixClient({ socket, table: csiTable, timeoutMs });
  }

  getPluginInfo(call: CsiCallOptions = {}): Promise<PluginInfo> {
    return this.#identity('GetPluginInfo', {}, call);
  }
  async getPluginCapabilities(call: CsiCallOptions = {}): Promise<ReadonlySet<PluginService>> {
    const { capabilities } = await this.#identity<{ readonly capabilities: readonly PluginCapability[] }>(
      'GetPluginCapabilities',
      {},
      call,
    );
    return new Set(capabilities.flatMap(({ service }) => (service ? [service.type] : [])));
  }
  /** Returns true if the driver is ready. A response without `ready` counts as ready (CSI specification, Probe). */
  async probe(call: CsiCallOptions = {}): Promise<boolean> {
    const { ready } = await this.#identity<{ readonly ready?: { readonly value: boolean } }>('Probe', {}, call);
    return ready?.value ?? true;
  }

  async controllerGetCapabilities(call: CsiCallOptions = {}): Promise<ReadonlySet<ControllerRpc>> {
    const { capabilities } = await this.#controller<{ readonly capabilities: readonly ControllerServiceCapability[] }>(
      'ControllerGetCapabilities',
      {},
      call,
    );
    return new Set(capabilities.flatMap(({ rpc }) => (rpc ? [rpc.type] : [])));
  }
  async createVolume(request: CreateVolumeRequest, call: CsiCallOptions = {}): Promise<CsiVolume> {
    const { volume } = await this.#controller<{ readonly volume?: CsiVolume }>('CreateVolume', request, call);
    if (volume === undefined) throw new TypeError('the CreateVolume response of the driver has no volume');
    return volume;
  }
  async deleteVolume(volumeId: string, secrets: Strings, call: CsiCallOptions = {}): Promise<void> {
    await this.#controller('DeleteVolume', { volumeId, secrets }, call);
  }
  async controllerPublishVolume(request: ControllerPublishVolumeRequest, call: CsiCallOptions = {}): Promise<Strings> {
    const { publishContext } = await this.#controller<{ readonly publishContext: Strings }>('ControllerPublishVolume', request, call);
    return publishContext;
  }
  async controllerUnpublishVolume(volumeId: string, nodeId: string, secrets: Strings, call: CsiCallOptions = {}): Promise<void> {
    await this.#controller('ControllerUnpublishVolume', { volumeId, nodeId, secrets }, call);
  }
  controllerExpandVolume(
    request: ExpandVolumeRequest,
    call: CsiCallOptions = {},
  ): Promise<{ readonly capacityBytes: number; readonly nodeExpansionRequired: boolean }> {
    return this.#controller('ControllerExpandVolume', request, call);
  }

  async controllerModifyVolume(request: ControllerModifyVolumeRequest, call: CsiCallOptions = {}): Promise<void> {
    await this.#controller('ControllerModifyVolume', request, call);
  }
  getCapacity(
    request: {
      readonly volumeCapabilities?: readonly VolumeCapability[];
      readonly parameters?: Strings;
      readonly accessibleTopology?: Topology;
    },
    call: CsiCallOptions = {},
  ): Promise<Capacity> {
    return this.#controller('GetCapacity', request, call);
  }
  async createSnapshot(request: CreateSnapshotRequest, call: CsiCallOptions = {}): Promise<CsiSnapshot> {
    const { snapshot } = await this.#controller<{ readonly snapshot?: CsiSnapshot }>('CreateSnapshot', request, call);
    if (snapshot === undefined) throw new TypeError('the CreateSnapshot response of the driver has no snapshot');
    return snapshot;
  }
  async deleteSnapshot(snapshotId: string, secrets: Strings, call: CsiCallOptions = {}): Promise<void> {
    await this.#controller('DeleteSnapshot', { snapshotId, secrets }, call);
  }
  /** Returns the snapshot with this ID (ListSnapshots); undefined if the driver has no such snapshot. */
  async snapshot(snapshotId: string, secrets: Strings, call: CsiCallOptions = {}): Promise<CsiSnapshot | undefined> {
    const { entries } = await this.#controller<{ readonly entries: readonly { readonly snapshot?: CsiSnapshot }[] }>(
      'ListSnapshots',
      { snapshotId, secrets },
      call,
    );
    return entries[0]?.snapshot;
  }

  nodeGetInfo(call: CsiCallOptions = {}): Promise<NodeInfo> {
    return this.#node('NodeGetInfo', {}, call);
  }
  async nodeGetCapabilities(call: CsiCallOptions = {}): Promise<ReadonlySet<NodeRpc>> {
    const { capabilities } = await this.#node<{ readonly capabilities: readonly NodeServiceCapability[] }>('NodeGetCapabilities', {}, call);
    return new Set(capabilities.flatMap(({ rpc }) => (rpc ? [rpc.type] : [])));
  }
  async nodeStageVolume(request: NodeStageVolumeRequest, call: CsiCallOptions = {}): Promise<void> {
    await this.#node('NodeStageVolume', request, call);
  }
  async nodeUnstageVolume(volumeId: string, stagingTargetPath: string, call: CsiCallOptions = {}): Promise<void> {
    await this.#node('NodeUnstageVolume', { volumeId, stagingTargetPath }, call);
  }
  async nodePublishVolume(request: NodePublishVolumeRequest, call: CsiCallOptions = {}): Promise<void> {
    await this.#node('NodePublishVolume', request, call);
  }
  async nodeUnpublishVolume(volumeId: string, targetPath: string, call: CsiCallOptions = {}): Promise<void> {
    await this.#node('NodeUnpublishVolume', { volumeId, targetPath }, call);
  }
  nodeGetVolumeStats(
    request: { readonly volumeId: string; readonly volumePath: string; readonly stagingTargetPath?: string },
    call: CsiCallOptions = {},
  ): Promise<NodeVolumeStats> {
    return this.#node('NodeGetVolumeStats', request, call);
  }
  nodeExpandVolume(request: ExpandVolumeRequest, call: CsiCallOptions = {}): Promise<{ readonly capacityBytes: number }> {
    return this.#node('NodeExpandVolume', request, call);
  }

  close(): void {
    this.#client.close();
  }

  #identity<Response extends object>(method: string, request: object, call: CsiCallOptions): Promise<Response> {
    return this.#client.call('csi.v1.Identity', method, request, call);
  }
  #controller<Response extends object>(method: string, request: object, call: CsiCallOptions): Promise<Response> {
    return this.#client.call('csi.v1.Controller', method, request, call);
  }
  #node<Response extends object>(method: string, request: object, call: CsiCallOptions): Promise<Response> {
    return this.#client.call('csi.v1.Node', method, request, call);
  }
}
