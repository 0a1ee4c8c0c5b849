import type { AccessMode, ControllerRpc, GroupControllerRpc, NodeRpc, PluginExpansion, PluginService } from './csi-messages.ts';

// The messages of csi.v1 that are used. A field left out of a request has its zero value; in a decoded message only fields of message type can
// be absent.

export type Strings = Readonly<Record<string, string>>;

export interface CapacityRange {
  readonly requiredBytes?: number;
  readonly limitBytes?: number;
}
export interface VolumeCapability {
  readonly block?: object;
  readonly mount?: { readonly fsType?: string; readonly mountFlags?: readonly string[]; readonly volumeMountGroup?: string };
  readonly accessMode?: { readonly mode: AccessMode };
}
export interface Topology {
  readonly segments: Strings;
}
export interface TopologyRequirement {
  readonly requisite?: readonly Topology[];
  readonly preferred?: readonly Topology[];
}
export interface VolumeContentSource {
  readonly snapshot?: { readonly snapshotId: string };
  readonly volume?: { readonly volumeId: string };
}
export interface CsiVolume {
  readonly capacityBytes: number;
  readonly volumeId: string;
  readonly volumeContext?: Strings;
  readonly contentSource?: VolumeContentSource;
  readonly accessibleTopology?: readonly Topology[];
}
export interface CsiSnapshot {
  readonly sizeBytes: number;
  readonly snapshotId: string;
  readonly sourceVolumeId: string;
  readonly creationTime?: { readonly seconds: number; readonly nanos: number };
  readonly readyToUse: boolean;
  /** The group that the snapshot belongs to; empty if it belongs to none. */
  readonly groupSnapshotId?: string;
}

/** The snapshots of several volumes, taken at the same point in time. */
export interface CsiGroupSnapshot {
  readonly groupSnapshotId: string;
  readonly snapshots: readonly CsiSnapshot[];
  readonly creationTime?: { readonly seconds: number; readonly nanos: number };
  readonly readyToUse: boolean;
}
export interface VolumeCondition {
  readonly abnormal: boolean;
  readonly message: string;
}
export interface ListedVolume {
  readonly volume: CsiVolume;
  readonly status: { readonly publishedNodeIds?: readonly string[]; readonly volumeCondition?: VolumeCondition };
}

export interface PluginInfo {
  readonly name: string;
  readonly vendorVersion: string;
}
export interface PluginCapability {
  readonly service?: { readonly type: PluginService };
  readonly volumeExpansion?: { readonly type: PluginExpansion };
}

export interface CreateVolumeRequest {
  readonly name: string;
  readonly capacityRange?: CapacityRange;
  readonly volumeCapabilities: readonly VolumeCapability[];
  readonly parameters?: Strings;
  readonly secrets?: Strings;
  readonly volumeContentSource?: VolumeContentSource;
  readonly accessibilityRequirements?: TopologyRequirement;
  readonly mutableParameters?: Strings;
}
export interface ControllerPublishVolumeRequest {
  readonly volumeId: string;
  readonly nodeId: string;
  readonly volumeCapability?: VolumeCapability;
  readonly readonly: boolean;
  readonly secrets?: Strings;
  readonly volumeContext?: Strings;
}
export interface ControllerModifyVolumeRequest {
  readonly volumeId: string;
  readonly secrets?: Strings;
  readonly mutableParameters: Strings;
}
export interface CreateSnapshotRequest {
  readonly sourceVolumeId: string;
  readonly name: string;
  readonly secrets?: Strings;
  readonly parameters?: Strings;
}
export interface CreateVolumeGroupSnapshotRequest {
  readonly name: string;
  readonly sourceVolumeIds: readonly string[];
  readonly secrets?: Strings;
  readonly parameters?: Strings;
}
export interface GroupSnapshotRequest {
  readonly groupSnapshotId: string;
  readonly snapshotIds: readonly string[];
  readonly secrets?: Strings;
}
export interface Capacity {
  readonly availableCapacity: number;
  readonly maximumVolumeSize?: { readonly value: number };
}
export interface VolumeUsage {
  readonly available: number;
  readonly total: number;
  readonly used: number;
  readonly unit: 'UNKNOWN_UNIT' | 'BYTES' | 'INODES';
}
export interface NodeVolumeStats {
  readonly usage: readonly VolumeUsage[];
  readonly volumeCondition?: VolumeCondition;
}
export interface NodeInfo {
  readonly nodeId: string;
  readonly maxVolumesPerNode: number;
  readonly accessibleTopology?: Topology;
}
export interface ControllerServiceCapability {
  readonly rpc?: { readonly type: ControllerRpc };
}
export interface GroupControllerServiceCapability {
  readonly rpc?: { readonly type: GroupControllerRpc };
}
export interface NodeServiceCapability {
  readonly rpc?: { readonly type: NodeRpc };
}

export interface NodePublishVolumeRequest {
  readonly volumeId: string;
  readonly publishContext?: Strings;
  readonly stagingTargetPath: string;
  readonly targetPath: string;
  readonly volumeCapability?: VolumeCapability;
  readonly readonly?: boolean;
  readonly secrets?: Strings;
  readonly volumeContext?: Strings;
}
export type NodeStageVolumeRequest = Omit<NodePublishVolumeRequest, 'targetPath' | 'readonly'>;
export interface ExpandVolumeRequest {
  readonly volumeId: string;
  readonly volumePath?: string;
  readonly stagingTargetPath?: string;
  readonly capacityRange?: CapacityRange;
  readonly volumeCapability?: VolumeCapability;
  readonly secrets?: Strings;
}
