import { slot } from '@oarlock/kernel/slot';
import type { Duplex, Readable, Writable } from 'node:stream';
import type { Cause } from '@oarlock/kernel/tracing';

// The shapes of CRI v1 (k8s.io/cri-api), in camelCase. Times are nanoseconds since the epoch as bigint would be on the wire; here
// milliseconds, because nothing we do with them needs more.

export interface PodSandboxMetadata {
  readonly name: string;
  readonly uid: string;
  readonly namespace: string;
  readonly attempt: number;
}
export type NamespaceMode = 'POD' | 'CONTAINER' | 'NODE' | 'TARGET';
/** So many ids from `containerId` on in a user namespace are those from `hostId` on outside of it. */
export interface IdMapping {
  readonly hostId: number;
  readonly containerId: number;
  readonly length: number;
}
export interface IdMappings {
  readonly uids: readonly IdMapping[];
  readonly gids: readonly IdMapping[];
}
export interface NamespaceOptions {
  readonly network: NamespaceMode;
  readonly pid: NamespaceMode;
  readonly ipc: NamespaceMode;
  readonly targetId?: string;
  /** A user namespace of the pod's own (KEP-127); absent: the node's users. Only for handlers with `userNamespaces`. */
  readonly users?: IdMappings;
}
export interface PortMapping {
  readonly protocol: 'TCP' | 'UDP' | 'SCTP';
  readonly containerPort: number;
  readonly hostPort: number;
  readonly hostIp?: string;
}
export interface SecurityProfile {
  readonly type: 'RuntimeDefault' | 'Unconfined' | 'Localhost';
  readonly localhostRef?: string;
}
export interface LinuxSandboxSecurity {
  readonly namespaces: NamespaceOptions;
  readonly runAsUser?: number;
  readonly runAsGroup?: number;
  readonly supplementalGroups?: readonly number[];
  /** `Strict`: no others, also not those of the image. */
  readonly supplementalGroupsPolicy?: 'Merge' | 'Strict';
  readonly readonlyRootfs?: boolean;
  readonly privileged?: boolean;
  readonly seccomp?: SecurityProfile;
  readonly apparmor?: SecurityProfile;
  readonly selinux?: { readonly user?: string; readonly role?: string; readonly type?: string; readonly level?: string };
}
export interface PodSandboxConfig {
  readonly metadata: PodSandboxMetadata;
  readonly hostname: string;
  /** Where container logs go: `<logDirectory>/<container>/<attempt>.log`, each line in CRI format. */
  readonly logDirectory: string;
  readonly dns?: { readonly servers: readonly string[]; readonly searches: readonly string[]; readonly options: readonly string[] };
  readonly portMappings: readonly PortMapping[];
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly linux: {
    readonly cgroupParent?: string;
    readonly security: LinuxSandboxSecurity;
    readonly sysctls?: Readonly<Record<string, string>>;
    readonly overhead?: LinuxResources;
    readonly resources?: LinuxResources;
  };
}

export interface LinuxResources {
  readonly cpuPeriod?: number;
  readonly cpuQuota?: number;
  readonly cpuShares?: number;
  readonly memoryLimitBytes?: number;
  readonly memorySwapLimitBytes?: number;
  readonly oomScoreAdj?: number;
  readonly cpusetCpus?: string;
  readonly cpusetMems?: string;
  readonly unified?: Readonly<Record<string, string>>;
  /** Bytes of huge pages by size, as `2MB`. */
  readonly hugepageLimits?: readonly { readonly pageSize: string; readonly limit: number }[];
}
export interface Mount {
  readonly containerPath: string;
  readonly hostPath: string;
  readonly readonly?: boolean;
  /** With `readonly`: what is mounted below it can be only read, too. */
  readonly recursiveReadOnly?: boolean;
  readonly propagation?: 'PRIVATE' | 'HOST_TO_CONTAINER' | 'BIDIRECTIONAL';
  readonly selinuxRelabel?: boolean;
  /** Files belong inside to the ids that the node's own are mapped to, so that the pod sees its owners as without a user namespace. */
  readonly idMappings?: IdMappings;
  /** Mounts the content of this image, or of a directory in it, instead of `hostPath` (KEP-4639). It is there already. */
  readonly image?: string;
  readonly imageSubPath?: string;
}
export interface Device {
  readonly containerPath: string;
  readonly hostPath: string;
  readonly permissions: string;
}
export interface ContainerConfig {
  readonly metadata: { readonly name: string; readonly attempt: number };
  /** The reference that `imageStatus` resolved. */
  readonly image: { readonly image: string; readonly userSpecifiedImage?: string };
  /** Replaces the image's entrypoint. */
  readonly command: readonly string[];
  readonly args: readonly string[];
  readonly workingDir?: string;
  readonly envs: readonly { readonly key: string; readonly value: string }[];
  readonly mounts: readonly Mount[];
  readonly devices?: readonly Device[];
  /** Names in the Container Device Interface (`vendor.com/class=name`), which the runtime resolves. */
  readonly cdiDevices?: readonly string[];
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  /** Relative to the sandbox's log directory. */
  readonly logPath: string;
  readonly stdin: boolean;
  readonly stdinOnce: boolean;
  readonly tty: boolean;
  /** Signal name without a number, such as `SIGTERM`; absent: the image's. */
  readonly stopSignal?: string;
  readonly linux: {
    readonly resources: LinuxResources;
    readonly security: LinuxSandboxSecurity & {
      readonly capabilities?: { readonly add: readonly string[]; readonly drop: readonly string[] };
      readonly runAsUsername?: string;
      readonly noNewPrivs?: boolean;
      readonly maskedPaths?: readonly string[];
      readonly readonlyPaths?: readonly string[];
    };
  };
}

export type SandboxState = 'READY' | 'NOTREADY';
export type ContainerState = 'CREATED' | 'RUNNING' | 'EXITED' | 'UNKNOWN';
export interface PodSandbox {
  readonly id: string;
  readonly metadata: PodSandboxMetadata;
  readonly state: SandboxState;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}
export interface PodSandboxStatus extends PodSandbox {
  /** Empty when the sandbox has the node's network and the runtime gave it no address. */
  readonly ips: readonly string[];
}
export interface Container {
  readonly id: string;
  readonly sandboxId: string;
  readonly metadata: { readonly name: string; readonly attempt: number };
  readonly image: string;
  readonly imageRef: string;
  readonly state: ContainerState;
  readonly createdAt: number;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}
export interface ContainerStatus extends Container {
  readonly startedAt?: number;
  readonly finishedAt?: number;
  readonly exitCode?: number;
  /** `Completed`, `Error`, `OOMKilled`, `ContainerCannotRun`, ... */
  readonly reason?: string;
  readonly message?: string;
  readonly mounts: readonly Mount[];
  /** Absolute. */
  readonly logPath: string;
  /** Whom its first process was started as; absent where the runtime does not say. */
  readonly user?: { readonly uid: number; readonly gid: number; readonly supplementalGroups: readonly number[] };
}
export interface ContainerStats {
  readonly id: string;
  readonly at: number;
  /** Core-nanoseconds since the container started. */
  readonly cpuUsageNanos: number;
  readonly memoryWorkingSetBytes: number;
  readonly memoryRssBytes: number;
  readonly writableLayerBytes: number;
  readonly writableLayerInodes: number;
}

export interface ContainerFilter {
  readonly id?: string;
  readonly sandboxId?: string;
  readonly state?: ContainerState;
  readonly labels?: Readonly<Record<string, string>>;
}
export interface SandboxFilter {
  readonly id?: string;
  readonly state?: SandboxState;
  readonly labels?: Readonly<Record<string, string>>;
}

/** Something happened to a container or sandbox: look again, the status shows it by then. Hints may come twice, never too rarely while the stream is open. */
export interface RuntimeEvent {
  readonly type: 'CREATED' | 'STARTED' | 'STOPPED' | 'DELETED';
  readonly sandboxId: string;
  /** Absent when it is about the sandbox itself. */
  readonly containerId?: string;
  readonly at: number;
}

/** The ends of a streaming session, from the runtime's side. With a tty there is no stderr. The runtime does not end the outputs: their owner does. */
export interface Streams {
  readonly stdin?: Readable;
  readonly stdout?: Writable;
  readonly stderr?: Writable;
  readonly tty: boolean;
  /** Yields when the terminal's size changes. */
  readonly resize?: AsyncIterable<{ readonly width: number; readonly height: number }>;
}

export interface Image {
  readonly id: string;
  readonly repoTags: readonly string[];
  readonly repoDigests: readonly string[];
  readonly sizeBytes: number;
  readonly uid?: number;
  readonly username?: string;
  readonly pinned?: boolean;
}
export interface RegistryAuth {
  readonly username?: string;
  readonly password?: string;
  readonly auth?: string;
  readonly identityToken?: string;
  readonly registryToken?: string;
  readonly serverAddress?: string;
}

export interface RuntimeInfo {
  readonly name: string;
  readonly version: string;
  readonly apiVersion: string;
}
export interface RuntimeCondition {
  readonly type: 'RuntimeReady' | 'NetworkReady';
  readonly status: boolean;
  readonly reason: string;
  readonly message: string;
}

/** What a runtime can do that not all can. Runtimes that do not say so cannot. */
export interface RuntimeFeatures {
  /** By handler; '' is the default one. */
  readonly handlers: readonly { readonly name: string; readonly recursiveReadOnlyMounts: boolean; readonly userNamespaces: boolean }[];
  /** Groups of the image can be left out (KEP-3619). */
  readonly supplementalGroupsPolicy: boolean;
}

/** What every call may carry on: cancellation and its cause for tracing. */
export interface RuntimeCall {
  readonly signal?: AbortSignal;
  readonly cause?: Cause | undefined;
}

/**
 * The CRI runtime and image services (k8s.io/cri-api v1), as a driver.
 *
 * Promises of the contract suite: stop and remove are idempotent and succeed on what is gone; removing a sandbox removes its
 * containers, killing what runs; a container goes CREATED -> RUNNING -> EXITED and never back; an exit is reported by an event;
 * exit codes are kept until removal; logs are complete and in CRI format when the exit is reported; everything survives a restart of
 * the caller, and, where `survivesRestart`, the containers go on running meanwhile.
 */
export interface RuntimeDriver {
  readonly traits: {
    /** The runtime calls CNI itself, from the conflist directory; otherwise the driver is given the network plugin and calls it. */
    readonly invokesCni: boolean;
    /** Runs images, and can pull them. False: only the image name `host`. */
    readonly images: boolean;
    /** Containers outlive this process and are found again. */
    readonly survivesRestart: boolean;
    /** A pod can have a network namespace of its own. */
    readonly networkNamespaces: boolean;
    /**
     * Nothing really runs: the kubelet then makes no files and mounts for pods, takes the sandbox's own address, asks the driver for probes and
     * logs (`execSync` with `oarlock.dev/probe KIND` and `oarlock.dev/logs`), and may stand for many nodes.
     */
    readonly simulated?: boolean;
  };
  version(call?: RuntimeCall): Promise<RuntimeInfo>;
  status(call?: RuntimeCall): Promise<readonly RuntimeCondition[]>;
  /** Undefined: the runtime does not say, as those before 2023. */
  features?(call?: RuntimeCall): Promise<RuntimeFeatures | undefined>;
  /** Who makes the runtime's cgroups, and names them: the kernel's file system, as when it does not say, or systemd. */
  cgroupDriver?(call?: RuntimeCall): Promise<'cgroupfs' | 'systemd'>;

  runPodSandbox(config: PodSandboxConfig, handler: string, call?: RuntimeCall): Promise<string>;
  stopPodSandbox(id: string, call?: RuntimeCall): Promise<void>;
  removePodSandbox(id: string, call?: RuntimeCall): Promise<void>;
  /** @throws RuntimeError `NotFound` */
  podSandboxStatus(id: string, call?: RuntimeCall): Promise<PodSandboxStatus>;
  listPodSandbox(filter?: SandboxFilter, call?: RuntimeCall): Promise<readonly PodSandbox[]>;

  createContainer(sandboxId: string, config: ContainerConfig, sandbox: PodSandboxConfig, call?: RuntimeCall): Promise<string>;
  startContainer(id: string, call?: RuntimeCall): Promise<void>;
  /** Sends the stop signal, then SIGKILL after `timeoutSeconds`. Returns when the container has exited. */
  stopContainer(id: string, timeoutSeconds: number, call?: RuntimeCall): Promise<void>;
  removeContainer(id: string, call?: RuntimeCall): Promise<void>;
  /** @throws RuntimeError `NotFound` */
  containerStatus(id: string, call?: RuntimeCall): Promise<ContainerStatus>;
  listContainers(filter?: ContainerFilter, call?: RuntimeCall): Promise<readonly Container[]>;
  updateContainerResources(id: string, resources: LinuxResources, call?: RuntimeCall): Promise<void>;
  reopenContainerLog(id: string, call?: RuntimeCall): Promise<void>;

  /** Output is cut at 16 MiB. @throws RuntimeError `DeadlineExceeded`; the process is then dead. */
  execSync(
    id: string,
    command: readonly string[],
    timeoutSeconds: number,
    call?: RuntimeCall,
  ): Promise<{ readonly stdout: Buffer; readonly stderr: Buffer; readonly exitCode: number }>;
  /** Runs until the process ends or `call.signal` aborts (which kills it); resolves with the exit code after all output was written. */
  exec(id: string, command: readonly string[], streams: Streams, call?: RuntimeCall): Promise<number>;
  /** Joins the streams of the running container; resolves when it ends or the caller's stdin side is done and nothing else is open. */
  attach(id: string, streams: Streams, call?: RuntimeCall): Promise<void>;
  /** A byte stream to a port inside the sandbox. */
  portForward(sandboxId: string, port: number, call?: RuntimeCall): Promise<Duplex>;

  containerStats(id: string, call?: RuntimeCall): Promise<ContainerStats>;
  listContainerStats(filter?: ContainerFilter, call?: RuntimeCall): Promise<readonly ContainerStats[]>;
  /** Live until the signal aborts. Begins with `'resync'` once nothing more can be missed, and says it again after every reconnect: list again. */
  events(signal: AbortSignal): AsyncIterable<RuntimeEvent | 'resync'>;

  listImages(call?: RuntimeCall): Promise<readonly Image[]>;
  /** Undefined when it is not there. */
  imageStatus(image: string, call?: RuntimeCall): Promise<Image | undefined>;
  /** Resolves with the reference to create containers from. @throws RuntimeError `NotFound`, `PermissionDenied`, `Unsupported` */
  pullImage(image: string, auth: RegistryAuth | undefined, sandbox: PodSandboxConfig | undefined, call?: RuntimeCall): Promise<string>;
  removeImage(image: string, call?: RuntimeCall): Promise<void>;
  imageFsInfo(call?: RuntimeCall): Promise<{ readonly mountpoint: string; readonly usedBytes: number; readonly inodesUsed: number }>;
}

const brand = Symbol.for('oarlock:RuntimeError');

export type RuntimeErrorCode =
  | 'NotFound'
  | 'AlreadyExists'
  | 'InvalidArgument'
  | 'FailedPrecondition'
  | 'DeadlineExceeded'
  | 'PermissionDenied'
  | 'Unsupported'
  | 'Unavailable'
  | 'Internal';
export class RuntimeError extends Error {
  /** Two copies of this package, a plugin's and ours, agree on what a RuntimeError is. */
  static override [Symbol.hasInstance](value: unknown): boolean {
    return typeof value === 'object' && value !== null && brand in value;
  }
  get [brand](): true {
    return true;
  }
  override readonly name = 'RuntimeError';
  readonly code: RuntimeErrorCode;
  /** What the runtime itself said, without what its protocol puts before: statuses and events of containers carry it. Default: the message. */
  readonly said: string;
  constructor(code: RuntimeErrorCode, message: string, options?: ErrorOptions & { readonly said?: string }) {
    super(message, options);
    this.code = code;
    this.said = options?.said ?? message;
  }
}

/** Drivers declare `{ invokesCni, images, networkNamespaces }` with the values of their traits. The name is what RuntimeClass handlers select by. */
export const Runtime = slot.named<RuntimeDriver>('runtime/v1');
