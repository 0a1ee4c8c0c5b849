import type {
  Container,
  ContainerFilter,
  ContainerState,
  ContainerStats,
  ContainerStatus,
  Image,
  Mount,
  PodSandbox,
  PodSandboxStatus,
  SandboxFilter,
  SandboxState,
  RuntimeFeatures,
} from '@oarlock/spi/runtime';

/** A decoded value. A message field is null if it is absent on the wire. */
type Value = { readonly value: number } | null;
type Strings = Readonly<Record<string, string>>;
type Nanoseconds = number;

export interface WireSandbox {
  readonly id: string;
  readonly metadata: { readonly name: string; readonly uid: string; readonly namespace: string; readonly attempt: number };
  readonly state: string;
  readonly createdAt: Nanoseconds;
  readonly labels: Strings;
  readonly annotations: Strings;
}
export interface WireSandboxStatus extends WireSandbox {
  readonly network: { readonly ip: string; readonly additionalIps: readonly { readonly ip: string }[] } | null;
}
export interface WireContainer {
  readonly id: string;
  readonly podSandboxId: string;
  readonly metadata: { readonly name: string; readonly attempt: number };
  readonly image: { readonly image: string } | null;
  readonly imageRef: string;
  readonly state: string;
  readonly createdAt: Nanoseconds;
  readonly labels: Strings;
  readonly annotations: Strings;
}
export interface WireContainerStatus extends Omit<WireContainer, 'podSandboxId'> {
  readonly startedAt: Nanoseconds;
  readonly finishedAt: Nanoseconds;
  readonly exitCode: number;
  readonly reason: string;
  readonly message: string;
  readonly mounts: readonly {
    readonly containerPath: string;
    readonly hostPath: string;
    readonly readonly: boolean;
    readonly selinuxRelabel: boolean;
    readonly propagation: string;
  }[];
  readonly logPath: string;
  readonly user: {
    readonly linux: { readonly uid: number; readonly gid: number; readonly supplementalGroups: readonly number[] } | null;
  } | null;
}
export interface WireContainerStats {
  readonly attributes: { readonly id: string };
  readonly cpu: { readonly timestamp: Nanoseconds; readonly usageCoreNanoSeconds: Value } | null;
  readonly memory: { readonly timestamp: Nanoseconds; readonly workingSetBytes: Value; readonly rssBytes: Value } | null;
  readonly writableLayer: { readonly usedBytes: Value; readonly inodesUsed: Value } | null;
}
export interface WireImage {
  readonly id: string;
  readonly repoTags: readonly string[];
  readonly repoDigests: readonly string[];
  readonly size: number;
  readonly uid: Value;
  readonly username: string;
  readonly pinned: boolean;
}

const milliseconds = (nanoseconds: Nanoseconds): number => Math.floor(nanoseconds / 1e6);

export function sandbox(wire: WireSandbox): PodSandbox {
  const { id, metadata, state, createdAt, labels, annotations } = wire;
  return { id, metadata, state: state.slice('SANDBOX_'.length) as SandboxState, createdAt: milliseconds(createdAt), labels, annotations };
}

export function sandboxStatus(wire: WireSandboxStatus): PodSandboxStatus {
  const ips = wire.network ? [wire.network.ip, ...wire.network.additionalIps.map(({ ip }) => ip)] : [];
  return { ...sandbox(wire), ips: ips.filter((ip) => ip !== '') };
}

export function container(wire: WireContainer): Container {
  const { id, podSandboxId, metadata, image, imageRef, state, createdAt, labels, annotations } = wire;
  return {
    id,
    sandboxId: podSandboxId,
    metadata,
    image: image?.image ?? '',
    imageRef,
    state: state.slice('CONTAINER_'.length) as ContainerState,
    createdAt: milliseconds(createdAt),
    labels,
    annotations,
  };
}

export function containerStatus(wire: WireContainerStatus, sandboxId: string): ContainerStatus {
  const base = container({ ...wire, podSandboxId: sandboxId });
  return {
    ...base,
    ...(wire.startedAt !== 0 && { startedAt: milliseconds(wire.startedAt) }),
    ...(wire.finishedAt !== 0 && { finishedAt: milliseconds(wire.finishedAt) }),
    ...(base.state === 'EXITED' && { exitCode: wire.exitCode }),
    ...(wire.reason !== '' && { reason: wire.reason }),
    ...(wire.message !== '' && { message: wire.message }),
    mounts: wire.mounts.map(
      (entry): Mount => ({
        containerPath: entry.containerPath,
        hostPath: entry.hostPath,
        readonly: entry.readonly,
        selinuxRelabel: entry.selinuxRelabel,
        propagation: entry.propagation.slice('PROPAGATION_'.length) as NonNullable<Mount['propagation']>,
      }),
    ),
    logPath: wire.logPath,
    ...(wire.user?.linux && { user: wire.user.linux }),
  };
}

export function containerStats(wire: WireContainerStats): ContainerStats {
  return {
    id: wire.attributes.id,
    at: milliseconds(wire.cpu?.timestamp ?? wire.memory?.timestamp ?? 0),
    cpuUsageNanos: wire.cpu?.usageCoreNanoSeconds?.value ?? 0,
    memoryWorkingSetBytes: wire.memory?.workingSetBytes?.value ?? 0,
    memoryRssBytes: wire.memory?.rssBytes?.value ?? 0,
    writableLayerBytes: wire.writableLayer?.usedBytes?.value ?? 0,
    writableLayerInodes: wire.writableLayer?.inodesUsed?.value ?? 0,
  };
}

export function image({ id, repoTags, repoDigests, size, uid, username, pinned }: WireImage): Image {
  return {
    id,
    repoTags,
    repoDigests,
    sizeBytes: size,
    ...(uid && { uid: uid.value }),
    ...(username !== '' && { username }),
    ...(pinned && { pinned }),
  };
}

export interface WireFeatures {
  readonly runtimeHandlers: readonly {
    readonly name: string;
    readonly features: { readonly recursiveReadOnlyMounts: boolean; readonly userNamespaces: boolean } | null;
  }[];
  readonly features: { readonly supplementalGroupsPolicy: boolean } | null;
}

/** Returns the features of the runtime; undefined if the runtime reports none. */
export function features(handlers: WireFeatures['runtimeHandlers'], all: WireFeatures['features']): RuntimeFeatures | undefined {
  if (handlers.length === 0 && !all) return undefined;
  return {
    handlers: handlers.map(({ name, features: supported }) => ({
      name,
      recursiveReadOnlyMounts: supported?.recursiveReadOnlyMounts === true,
      userNamespaces: supported?.userNamespaces === true,
    })),
    supplementalGroupsPolicy: all?.supplementalGroupsPolicy === true,
  };
}

export function sandboxFilter({ id, state, labels }: SandboxFilter): object {
  return {
    ...(id !== undefined && { id }),
    ...(state && { state: { state: `SANDBOX_${state}` } }),
    ...(labels && { labelSelector: labels }),
  };
}

export function containerFilter({ id, sandboxId, state, labels }: ContainerFilter): object {
  return {
    ...(id !== undefined && { id }),
    ...(sandboxId !== undefined && { podSandboxId: sandboxId }),
    ...(state && { state: { state: `CONTAINER_${state}` } }),
    ...(labels && { labelSelector: labels }),
  };
}
