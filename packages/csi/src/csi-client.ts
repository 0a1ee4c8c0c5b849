import { UnixClient } from '@oarlock/grpc/unix-client';
import { csiTable, type ControllerRpc, type NodeRpc, type PluginService } from './csi-messages.ts';
import type {
  Capacity,
  ControllerCapability,
  ControllerPublishRequest,
  CreateSnapshotRequest,
  CreateVolumeRequest,
  CsiSnapshot,
  CsiVolume,
  ExpandRequest,
  ModifyRequest,
  NodeCapability,
  NodeInfo,
  PluginCapability,
  PluginInfo,
  PublishRequest,
  StageRequest,
  Strings,
  Topology,
  VolumeCapability,
  VolumeStatistics,
} from './csi-types.ts';

export interface CsiCall {
  readonly signal?: AbortSignal | undefined;
}

const timeoutMs = 120_000;

/** The three services of a CSI driver behind one socket. Every call @throws GrpcError. */
export class CsiClient {
  readonly #client: UnixClient;

  constructor(socket: string) {
    this.#client = new UnixClient({ socket, table: csiTable, timeoutMs });
  }

  info(call: CsiCall = {}): Promise<PluginInfo> {
    return this.#identity('GetPluginInfo', {}, call);
  }
  async services(call: CsiCall = {}): Promise<ReadonlySet<PluginService>> {
    const { capabilities } = await this.#identity<{ readonly capabilities: readonly PluginCapability[] }>(
      'GetPluginCapabilities',
      {},
      call,
    );
    return new Set(capabilities.flatMap(({ service }) => (service ? [service.type] : [])));
  }
  /** Absent: it does not say, and counts as ready. */
  async ready(call: CsiCall = {}): Promise<boolean> {
    const { ready } = await this.#identity<{ readonly ready?: { readonly value: boolean } }>('Probe', {}, call);
    return ready?.value ?? true;
  }

  async controllerAbilities(call: CsiCall = {}): Promise<ReadonlySet<ControllerRpc>> {
    const { capabilities } = await this.#controller<{ readonly capabilities: readonly ControllerCapability[] }>(
      'ControllerGetCapabilities',
      {},
      call,
    );
    return new Set(capabilities.flatMap(({ rpc }) => (rpc ? [rpc.type] : [])));
  }
  async createVolume(request: CreateVolumeRequest, call: CsiCall = {}): Promise<CsiVolume> {
    const { volume } = await this.#controller<{ readonly volume?: CsiVolume }>('CreateVolume', request, call);
    if (volume === undefined) throw new TypeError('the driver answered CreateVolume without a volume');
    return volume;
  }
  async deleteVolume(volumeId: string, secrets: Strings, call: CsiCall = {}): Promise<void> {
    await this.#controller('DeleteVolume', { volumeId, secrets }, call);
  }
  async publish(request: ControllerPublishRequest, call: CsiCall = {}): Promise<Strings> {
    const { publishContext } = await this.#controller<{ readonly publishContext: Strings }>('ControllerPublishVolume', request, call);
    return publishContext;
  }
  async unpublish(volumeId: string, nodeId: string, secrets: Strings, call: CsiCall = {}): Promise<void> {
    await this.#controller('ControllerUnpublishVolume', { volumeId, nodeId, secrets }, call);
  }
  expand(request: ExpandRequest, call: CsiCall = {}): Promise<{ readonly capacityBytes: number; readonly nodeExpansionRequired: boolean }> {
    return this.#controller('ControllerExpandVolume', request, call);
  }

  async modify(request: ModifyRequest, call: CsiCall = {}): Promise<void> {
    await this.#controller('ControllerModifyVolume', request, call);
  }
  capacity(
    request: {
      readonly volumeCapabilities?: readonly VolumeCapability[];
      readonly parameters?: Strings;
      readonly accessibleTopology?: Topology;
    },
    call: CsiCall = {},
  ): Promise<Capacity> {
    return this.#controller('GetCapacity', request, call);
  }
  async createSnapshot(request: CreateSnapshotRequest, call: CsiCall = {}): Promise<CsiSnapshot> {
    const { snapshot } = await this.#controller<{ readonly snapshot?: CsiSnapshot }>('CreateSnapshot', request, call);
    if (snapshot === undefined) throw new TypeError('the driver answered CreateSnapshot without a snapshot');
    return snapshot;
  }
  async deleteSnapshot(snapshotId: string, secrets: Strings, call: CsiCall = {}): Promise<void> {
    await this.#controller('DeleteSnapshot', { snapshotId, secrets }, call);
  }
  /** Undefined: the driver has no such snapshot. */
  async snapshot(snapshotId: string, secrets: Strings, call: CsiCall = {}): Promise<CsiSnapshot | undefined> {
    const { entries } = await this.#controller<{ readonly entries: readonly { readonly snapshot?: CsiSnapshot }[] }>(
      'ListSnapshots',
      { snapshotId, secrets },
      call,
    );
    return entries[0]?.snapshot;
  }

  nodeInfo(call: CsiCall = {}): Promise<NodeInfo> {
    return this.#node('NodeGetInfo', {}, call);
  }
  async nodeAbilities(call: CsiCall = {}): Promise<ReadonlySet<NodeRpc>> {
    const { capabilities } = await this.#node<{ readonly capabilities: readonly NodeCapability[] }>('NodeGetCapabilities', {}, call);
    return new Set(capabilities.flatMap(({ rpc }) => (rpc ? [rpc.type] : [])));
  }
  async nodeStage(request: StageRequest, call: CsiCall = {}): Promise<void> {
    await this.#node('NodeStageVolume', request, call);
  }
  async nodeUnstage(volumeId: string, stagingTargetPath: string, call: CsiCall = {}): Promise<void> {
    await this.#node('NodeUnstageVolume', { volumeId, stagingTargetPath }, call);
  }
  async nodePublish(request: PublishRequest, call: CsiCall = {}): Promise<void> {
    await this.#node('NodePublishVolume', request, call);
  }
  async nodeUnpublish(volumeId: string, targetPath: string, call: CsiCall = {}): Promise<void> {
    await this.#node('NodeUnpublishVolume', { volumeId, targetPath }, call);
  }
  nodeStatistics(
    request: { readonly volumeId: string; readonly volumePath: string; readonly stagingTargetPath?: string },
    call: CsiCall = {},
  ): Promise<VolumeStatistics> {
    return this.#node('NodeGetVolumeStats', request, call);
  }
  nodeExpand(request: ExpandRequest, call: CsiCall = {}): Promise<{ readonly capacityBytes: number }> {
    return this.#node('NodeExpandVolume', request, call);
  }

  close(): void {
    this.#client.close();
  }

  #identity<Response extends object>(method: string, request: object, call: CsiCall): Promise<Response> {
    return this.#client.call('csi.v1.Identity', method, request, call);
  }
  #controller<Response extends object>(method: string, request: object, call: CsiCall): Promise<Response> {
    return this.#client.call('csi.v1.Controller', method, request, call);
  }
  #node<Response extends object>(method: string, request: object, call: CsiCall): Promise<Response> {
    return this.#client.call('csi.v1.Node', method, request, call);
  }
}
