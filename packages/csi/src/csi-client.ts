import { UnixClient } from '@oarlock/grpc/unix-client';
import { AnswerChecks } from './internal/answer-checks.ts';
import { checkedGroup, checkedSnapshot, checkedStatus, checkedVolume } from './internal/checked-answers.ts';
import { csiTable, type ControllerRpc, type GroupControllerRpc, type NodeRpc, type PluginService } from './csi-messages.ts';
import type {
  Capacity,
  ControllerServiceCapability,
  ControllerPublishVolumeRequest,
  CreateSnapshotRequest,
  CreateVolumeRequest,
  CreateVolumeGroupSnapshotRequest,
  CsiGroupSnapshot,
  CsiSnapshot,
  CsiVolume,
  ExpandVolumeRequest,
  GroupControllerServiceCapability,
  GroupSnapshotRequest,
  ListedVolume,
  VolumeCondition,
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

  async getPluginInfo(call: CsiCallOptions = {}): Promise<PluginInfo> {
    const info = await this.#identity<PluginInfo>('GetPluginInfo', {}, call);
    new AnswerChecks('GetPluginInfo').driverName('name', info.name);
    return info;
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
    return checkedVolume(new AnswerChecks('CreateVolume'), 'volume', volume);
  }
  async deleteVolume(volumeId: string, secrets: Strings, call: CsiCallOptions = {}): Promise<void> {
    await this.#controller('DeleteVolume', { volumeId, secrets }, call);
  }
  async controllerPublishVolume(request: ControllerPublishVolumeRequest, call: CsiCallOptions = {}): Promise<Strings> {
    const { publishContext } = await this.#controller<{ readonly publishContext: Strings }>('ControllerPublishVolume', request, call);
    return new AnswerChecks('ControllerPublishVolume').strings('publish_context', publishContext);
  }
  async controllerUnpublishVolume(volumeId: string, nodeId: string, secrets: Strings, call: CsiCallOptions = {}): Promise<void> {
    await this.#controller('ControllerUnpublishVolume', { volumeId, nodeId, secrets }, call);
  }
  async controllerExpandVolume(
    request: ExpandVolumeRequest,
    call: CsiCallOptions = {},
  ): Promise<{ readonly capacityBytes: number; readonly nodeExpansionRequired: boolean }> {
    const expanded = await this.#controller<{ readonly capacityBytes: number; readonly nodeExpansionRequired: boolean }>(
      'ControllerExpandVolume',
      request,
      call,
    );
    const checks = new AnswerChecks('ControllerExpandVolume');
    checks.bytes('capacity_bytes', expanded.capacityBytes);
    checks.atLeast('capacity_bytes', expanded.capacityBytes, request.capacityRange?.requiredBytes ?? 0);
    return expanded;
  }

  async controllerModifyVolume(request: ControllerModifyVolumeRequest, call: CsiCallOptions = {}): Promise<void> {
    await this.#controller('ControllerModifyVolume', request, call);
  }
  async getCapacity(
    request: {
      readonly volumeCapabilities?: readonly VolumeCapability[];
      readonly parameters?: Strings;
      readonly accessibleTopology?: Topology;
    },
    call: CsiCallOptions = {},
  ): Promise<Capacity> {
    const capacity = await this.#controller<Capacity>('GetCapacity', request, call);
    const checks = new AnswerChecks('GetCapacity');
    checks.notNegative('available_capacity', capacity.availableCapacity);
    checks.notNegative('maximum_volume_size', capacity.maximumVolumeSize?.value ?? 0);
    return capacity;
  }
  async createSnapshot(request: CreateSnapshotRequest, call: CsiCallOptions = {}): Promise<CsiSnapshot> {
    const { snapshot } = await this.#controller<{ readonly snapshot?: CsiSnapshot }>('CreateSnapshot', request, call);
    const checks = new AnswerChecks('CreateSnapshot');
    const checked = checkedSnapshot(checks, 'snapshot', snapshot);
    checks.same('snapshot.source_volume_id', checked.sourceVolumeId, request.sourceVolumeId);
    return checked;
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
    const [entry] = entries;
    if (entry === undefined) return undefined;
    const checks = new AnswerChecks('ListSnapshots');
    const snapshot = checkedSnapshot(checks, 'entries[0].snapshot', entry.snapshot);
    checks.same('entries[0].snapshot.snapshot_id', snapshot.snapshotId, snapshotId);
    return snapshot;
  }
  /**
   * Yields the volumes of the driver with their conditions, page by page (ListVolumes).
   * @throws GrpcError `INTERNAL` if the pages do not end
   */
  async *listVolumes(call: CsiCallOptions = {}): AsyncGenerator<ListedVolume> {
    const checks = new AnswerChecks('ListVolumes');
    let startingToken = '';
    for (let page = 1; ; page++) {
      checks.count('pages', page, maxPages);
      const { entries, nextToken } = await this.#controller<{
        readonly entries: readonly Partial<ListedVolume>[];
        readonly nextToken: string;
      }>('ListVolumes', { startingToken }, call);
      for (const [at, { volume, status = {} }] of entries.entries()) {
        const field = `entries[${at}]`;
        yield { volume: checkedVolume(checks, `${field}.volume`, volume), status: checkedStatus(checks, field, status) };
      }
      if (nextToken === '') return;
      checks.different('next_token', nextToken, startingToken);
      startingToken = nextToken;
    }
  }
  /** Returns the condition of a volume (ControllerGetVolume); undefined if the driver does not report it. */
  async volumeCondition(volumeId: string, call: CsiCallOptions = {}): Promise<VolumeCondition | undefined> {
    const checks = new AnswerChecks('ControllerGetVolume');
    const { volume, status } = await this.#controller<Partial<ListedVolume>>('ControllerGetVolume', { volumeId }, call);
    checks.same('volume.volume_id', checkedVolume(checks, 'volume', volume).volumeId, volumeId);
    return checkedStatus(checks, '', checks.present('status', status)).volumeCondition;
  }

  async groupControllerGetCapabilities(call: CsiCallOptions = {}): Promise<ReadonlySet<GroupControllerRpc>> {
    const { capabilities } = await this.#group<{ readonly capabilities: readonly GroupControllerServiceCapability[] }>(
      'GroupControllerGetCapabilities',
      {},
      call,
    );
    return new Set(capabilities.flatMap(({ rpc }) => (rpc ? [rpc.type] : [])));
  }
  async createVolumeGroupSnapshot(request: CreateVolumeGroupSnapshotRequest, call: CsiCallOptions = {}): Promise<CsiGroupSnapshot> {
    const checks = new AnswerChecks('CreateVolumeGroupSnapshot');
    const { groupSnapshot } = await this.#group<GroupSnapshotAnswer>('CreateVolumeGroupSnapshot', request, call);
    const group = checkedGroup(checks, groupSnapshot);
    const sources = new Set(request.sourceVolumeIds);
    checks.count('group_snapshot.snapshots', group.snapshots.length, sources.size);
    for (const [at, { sourceVolumeId }] of group.snapshots.entries())
      checks.oneOf(`group_snapshot.snapshots[${at}].source_volume_id`, sourceVolumeId, sources);
    checks.complete('group_snapshot.snapshots', new Set(group.snapshots.map(({ sourceVolumeId }) => sourceVolumeId)), sources);
    return group;
  }
  async getVolumeGroupSnapshot(request: GroupSnapshotRequest, call: CsiCallOptions = {}): Promise<CsiGroupSnapshot> {
    const checks = new AnswerChecks('GetVolumeGroupSnapshot');
    const { groupSnapshot } = await this.#group<GroupSnapshotAnswer>('GetVolumeGroupSnapshot', request, call);
    const group = checkedGroup(checks, groupSnapshot);
    checks.same('group_snapshot.group_snapshot_id', group.groupSnapshotId, request.groupSnapshotId);
    return group;
  }
  async deleteVolumeGroupSnapshot(request: GroupSnapshotRequest, call: CsiCallOptions = {}): Promise<void> {
    await this.#group('DeleteVolumeGroupSnapshot', request, call);
  }

  async nodeGetInfo(call: CsiCallOptions = {}): Promise<NodeInfo> {
    const info = await this.#node<NodeInfo>('NodeGetInfo', {}, call);
    const checks = new AnswerChecks('NodeGetInfo');
    checks.nodeId('node_id', info.nodeId);
    checks.notNegative('max_volumes_per_node', info.maxVolumesPerNode);
    if (info.accessibleTopology !== undefined) checks.topology('accessible_topology', info.accessibleTopology);
    return info;
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
  async nodeGetVolumeStats(
    request: { readonly volumeId: string; readonly volumePath: string; readonly stagingTargetPath?: string },
    call: CsiCallOptions = {},
  ): Promise<NodeVolumeStats> {
    const stats = await this.#node<NodeVolumeStats>('NodeGetVolumeStats', request, call);
    const checks = new AnswerChecks('NodeGetVolumeStats');
    checks.count('usage', stats.usage.length, maxUsages);
    for (const { unit, ...usage } of stats.usage)
      for (const field of ['total', 'used', 'available'] as const) checks.notNegative(`usage[${unit}].${field}`, usage[field]);
    checks.message('volume_condition.message', stats.volumeCondition?.message ?? '');
    return stats;
  }
  async nodeExpandVolume(request: ExpandVolumeRequest, call: CsiCallOptions = {}): Promise<{ readonly capacityBytes: number }> {
    const expanded = await this.#node<{ readonly capacityBytes: number }>('NodeExpandVolume', request, call);
    new AnswerChecks('NodeExpandVolume').bytes('capacity_bytes', expanded.capacityBytes);
    return expanded;
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
  #group<Response extends object>(method: string, request: object, call: CsiCallOptions): Promise<Response> {
    return this.#client.call('csi.v1.GroupController', method, request, call);
  }
  #node<Response extends object>(method: string, request: object, call: CsiCallOptions): Promise<Response> {
    return this.#client.call('csi.v1.Node', method, request, call);
  }
}

/** The maximum number of pages of a list. Drivers list 100 or more volumes in one page. */
const maxPages = 1_000;
/** NodeGetVolumeStats reports one usage for each unit. */
const maxUsages = 8;

interface GroupSnapshotAnswer {
  readonly groupSnapshot?: CsiGroupSnapshot;
}
