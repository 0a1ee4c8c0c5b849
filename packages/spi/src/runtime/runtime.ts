import { slot } from '@oarlock/kernel/slot';
import type { Duplex, Readable, Writable } from 'node:stream';
import type { SpanContext } from '@oarlock/kernel/tracing';

// The types of CRI v1 (k8s.io/cri-api) in camelCase. CRI has times in nanoseconds since the epoch; these are in milliseconds,
// because no caller needs a finer resolution.

export interface PodSandboxMetadata {
  readonly name: string;
  readonly uid: string;
  readonly namespace: string;
  readonly attempt: number;
}
export type NamespaceMode = 'POD' | 'CONTAINER' | 'NODE' | 'TARGET';
/** A mapping of `length` consecutive ids, from `containerId` inside a user namespace to `hostId` on the node. */
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
  /** Id mappings of the pod's user namespace (KEP-127); absent if the pod uses the node's user namespace. Only for handlers with `userNamespaces`. */
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
  /** How supplemental groups are determined. `Strict`: only the listed groups, without the groups of the image. */
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
  /** Directory of container logs: `<logDirectory>/<container>/<attempt>.log`, each line in CRI format. */
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
  /** Limits in bytes by huge page size, such as `2MB`. */
  readonly hugepageLimits?: readonly { readonly pageSize: string; readonly limit: number }[];
}
export interface Mount {
  readonly containerPath: string;
  readonly hostPath: string;
  /**
   * `DEVICE:INODE` of the file at `hostPath` that the kubelet has checked; set if the pod can write to a directory on the path. A runtime that
   * resolves the path again rejects another file.
   */
  readonly checkedFile?: string;
  readonly readonly?: boolean;
  /** True if mounts below a read-only mount are read-only as well; used with `readonly`. */
  readonly recursiveReadOnly?: boolean;
  readonly propagation?: 'PRIVATE' | 'HOST_TO_CONTAINER' | 'BIDIRECTIONAL';
  readonly selinuxRelabel?: boolean;
  /** An id-mapped mount: inside the container, files have the owners that they have on the node. */
  readonly idMappings?: IdMappings;
  /** An image to mount, or a directory in the image, instead of `hostPath` (KEP-4639). The image is already pulled. */
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
  /** The image reference that `imageStatus` returned. */
  readonly image: { readonly image: string; readonly userSpecifiedImage?: string };
  /** The command, which replaces the image's entrypoint. */
  readonly command: readonly string[];
  readonly args: readonly string[];
  readonly workingDir?: string;
  readonly envs: readonly { readonly key: string; readonly value: string }[];
  readonly mounts: readonly Mount[];
  readonly devices?: readonly Device[];
  /** Names of the Container Device Interface (`vendor.com/class=name`), which the runtime resolves. */
  readonly cdiDevices?: readonly string[];
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  /** Path of the log file, relative to the sandbox's log directory. */
  readonly logPath: string;
  readonly stdin: boolean;
  readonly stdinOnce: boolean;
  readonly tty: boolean;
  /** Signal name such as `SIGTERM`; absent: the image's stop signal. */
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
  /** Creation time in milliseconds since the epoch. */
  readonly createdAt: number;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}
export interface PodSandboxStatus extends PodSandbox {
  /** The sandbox's addresses; empty if the sandbox uses the node's network and the runtime assigned no address. */
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
  /** Reason for the state: `Completed`, `Error`, `OOMKilled`, `ContainerCannotRun`, ... */
  readonly reason?: string;
  readonly message?: string;
  readonly mounts: readonly Mount[];
  /** Absolute path of the log file. */
  readonly logPath: string;
  /** The user of the container's first process; absent if the runtime does not report it. */
  readonly user?: { readonly uid: number; readonly gid: number; readonly supplementalGroups: readonly number[] };
}
export interface ContainerStats {
  readonly id: string;
  readonly at: number;
  /** CPU usage in core-nanoseconds since the container started. */
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

/**
 * A change of a container or sandbox. The status reflects it when the event is delivered. Events may be duplicated; none is lost
 * while the stream is open.
 */
export interface RuntimeEvent {
  readonly type: 'CREATED' | 'STARTED' | 'STOPPED' | 'DELETED';
  readonly sandboxId: string;
  /** Id of the container; absent for an event of the sandbox itself. */
  readonly containerId?: string;
  readonly at: number;
}

/** The streams of an exec or attach session. With a tty there is no stderr. The runtime does not end the output streams; the caller does. */
export interface Streams {
  readonly stdin?: Readable;
  readonly stdout?: Writable;
  readonly stderr?: Writable;
  readonly tty: boolean;
  /** Yields each new size of the terminal. */
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
  /** The host of the registry, with its port. Empty or absent: the registry of the image. */
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

/** Reports whether a runtime isolates pods from the node's files, keys and processes, and from other pods. */
export interface PodIsolation {
  readonly enforced: boolean;
  /** The reason why pods are not isolated; '' if they are isolated. */
  readonly reason: string;
}

/** The image name with which a container runs programs of the node, for runtimes without images. */
export const hostImage = 'host';

/** Returns true for `host`, also with the tag and registry that defaulting may add. */
export function isHostImage(reference: string): boolean {
  return /^(?:docker\.io\/(?:library\/)?)?host(?::latest)?$/.test(reference);
}

/** Reports whether a runtime runs images on this machine. */
export interface ImageSupport {
  readonly available: boolean;
  /** How images run; if they cannot run, why. A clause without a capital letter and a period. */
  readonly detail: string;
}

/** What a pod may request and a runtime may be unable to enforce on a machine. */
export type LimitedFeature =
  | 'resources'
  | 'huge-pages'
  | 'seccomp'
  | 'apparmor'
  | 'selinux'
  | 'users'
  | 'namespaces'
  | 'capabilities'
  | 'privileged'
  | 'mounts'
  | 'network'
  | 'oom-score';
/** Something that a runtime does not enforce on this machine. */
export interface Limitation {
  readonly feature: LimitedFeature;
  /** A clause without a capital letter and a period, such as `seccomp profiles are not applied`. */
  readonly message: string;
  /** True if only pods that request the feature get to know it, such as a profile of a security module that the kernel lacks. */
  readonly onRequest?: boolean;
}

/** Optional features of a runtime. A feature that is not reported is not supported. */
export interface RuntimeFeatures {
  /** Features by handler; '' is the default handler. */
  readonly handlers: readonly { readonly name: string; readonly recursiveReadOnlyMounts: boolean; readonly userNamespaces: boolean }[];
  /** True if the runtime supports the supplementalGroupsPolicy `Strict` (KEP-3619). */
  readonly supplementalGroupsPolicy: boolean;
}

/** Options of every call: cancellation, and the parent span. */
export interface RuntimeCallOptions {
  readonly signal?: AbortSignal;
  readonly spanContext?: SpanContext | undefined;
}

/**
 * A container runtime with the operations of CRI v1 (RuntimeService and ImageService of k8s.io/cri-api).
 *
 * Guaranteed, and tested by the contract suite:
 *
 * - stop and remove are idempotent and succeed if the sandbox or container does not exist;
 * - removing a sandbox kills and removes its containers;
 * - a container goes from CREATED to RUNNING to EXITED and never back;
 * - every exit is reported by an event; the exit code is kept until removal;
 * - logs are complete and in CRI format when the exit is reported;
 * - sandboxes and containers are found again after a restart of the kubelet; with the trait `survivesRestart` they keep running
 *   meanwhile.
 *
 * Not guaranteed: that each state is visible in a status (a short-lived container may be EXITED at the first look), or the order
 * of events of different containers.
 *
 * Every method throws `RuntimeError`. `NotFound` means that the id does not exist; after `Unavailable` and `DeadlineExceeded` it is
 * unknown whether the call took effect.
 */
export interface RuntimeDriver {
  readonly traits: {
    /**
     * True if the container runtime calls CNI plugins itself, with the conflist directory. Otherwise the driver receives the network plugin and calls
     * it.
     */
    readonly invokesCni: boolean;
    /** True if the runtime can pull and run images. False: the only image name is `host`. The kubelet gives other images to a runtime with images. */
    readonly images: boolean;
    /** True if containers outlive this process and a new process can manage them. */
    readonly survivesRestart: boolean;
    /** True if a pod can have its own network namespace. */
    readonly networkNamespaces: boolean;
    /**
     * True if no processes run. The kubelet then creates no files and mounts for pods, uses the sandbox's address for pods on the node's
     * network, calls the driver for probes and logs (`execSync` with `oarlock.dev/probe KIND` and `oarlock.dev/logs`), and may serve many
     * nodes.
     */
    readonly simulated?: boolean;
  };
  version(call?: RuntimeCallOptions): Promise<RuntimeInfo>;
  status(call?: RuntimeCallOptions): Promise<readonly RuntimeCondition[]>;
  /** Returns the features of the runtime, or undefined if the runtime does not report features, as runtimes before 2023. */
  features?(call?: RuntimeCallOptions): Promise<RuntimeFeatures | undefined>;
  /** Reports whether pods are isolated from the node. If absent, pods are always isolated. */
  isolation?(call?: RuntimeCallOptions): Promise<PodIsolation>;
  /** Reports whether images run on this machine. If absent, they do if the trait `images` is true. */
  imageSupport?(call?: RuntimeCallOptions): Promise<ImageSupport>;
  /** Returns what is not enforced on this machine. If absent, everything is. The kubelet reports it in the node's condition `PodEnforcement`. */
  limitations?(call?: RuntimeCallOptions): Promise<readonly Limitation[]>;
  /** Returns the cgroup driver of the runtime. If absent, or if the runtime does not report a cgroup driver, cgroupfs is assumed. */
  cgroupDriver?(call?: RuntimeCallOptions): Promise<'cgroupfs' | 'systemd'>;

  runPodSandbox(config: PodSandboxConfig, handler: string, call?: RuntimeCallOptions): Promise<string>;
  stopPodSandbox(id: string, call?: RuntimeCallOptions): Promise<void>;
  removePodSandbox(id: string, call?: RuntimeCallOptions): Promise<void>;
  /** Returns the status. Listing is cheaper for many sandboxes. */
  /** Returns the status of a sandbox. @throws RuntimeError `NotFound` if the sandbox does not exist */
  podSandboxStatus(id: string, call?: RuntimeCallOptions): Promise<PodSandboxStatus>;
  listPodSandbox(filter?: SandboxFilter, call?: RuntimeCallOptions): Promise<readonly PodSandbox[]>;

  createContainer(sandboxId: string, config: ContainerConfig, sandbox: PodSandboxConfig, call?: RuntimeCallOptions): Promise<string>;
  startContainer(id: string, call?: RuntimeCallOptions): Promise<void>;
  /** Sends the stop signal to a container, and SIGKILL after `timeoutSeconds`. Resolves when the container has exited. */
  stopContainer(id: string, timeoutSeconds: number, call?: RuntimeCallOptions): Promise<void>;
  removeContainer(id: string, call?: RuntimeCallOptions): Promise<void>;
  /** Returns the status of a container. @throws RuntimeError `NotFound` if the container does not exist */
  containerStatus(id: string, call?: RuntimeCallOptions): Promise<ContainerStatus>;
  listContainers(filter?: ContainerFilter, call?: RuntimeCallOptions): Promise<readonly Container[]>;
  updateContainerResources(id: string, resources: LinuxResources, call?: RuntimeCallOptions): Promise<void>;
  reopenContainerLog(id: string, call?: RuntimeCallOptions): Promise<void>;

  /**
   * Runs a command and returns its output, at most 16 MiB.
   * @throws RuntimeError `DeadlineExceeded` if the command exceeds the timeout; the process is killed
   */
  execSync(
    id: string,
    command: readonly string[],
    timeoutSeconds: number,
    call?: RuntimeCallOptions,
  ): Promise<{ readonly stdout: Buffer; readonly stderr: Buffer; readonly exitCode: number }>;
  /** Runs a command. Resolves with the exit code after all output was written. If `call.signal` aborts, kills the command. */
  exec(id: string, command: readonly string[], streams: Streams, call?: RuntimeCallOptions): Promise<number>;
  /** Connects to the streams of the running container. Resolves when the container exits, or when stdin has ended and no output is attached. */
  attach(id: string, streams: Streams, call?: RuntimeCallOptions): Promise<void>;
  /** Opens a TCP connection to a port inside the sandbox. */
  portForward(sandboxId: string, port: number, call?: RuntimeCallOptions): Promise<Duplex>;

  containerStats(id: string, call?: RuntimeCallOptions): Promise<ContainerStats>;
  listContainerStats(filter?: ContainerFilter, call?: RuntimeCallOptions): Promise<readonly ContainerStats[]>;
  /** Yields events until the signal aborts. Yields `'resync'` at the start and after each reconnect: the caller must then list again. */
  events(signal: AbortSignal): AsyncIterable<RuntimeEvent | 'resync'>;

  listImages(call?: RuntimeCallOptions): Promise<readonly Image[]>;
  /** Returns the status of an image, or undefined if the image does not exist. */
  imageStatus(image: string, call?: RuntimeCallOptions): Promise<Image | undefined>;
  /**
   * Pulls an image. Returns the reference from which containers are created.
   * @throws RuntimeError `NotFound` if the image does not exist, `PermissionDenied` if the registry denies access, `Unsupported` if the runtime has
   * no images
   */
  pullImage(
    image: string,
    auth: RegistryAuth | undefined,
    sandbox: PodSandboxConfig | undefined,
    call?: RuntimeCallOptions,
  ): Promise<string>;
  removeImage(image: string, call?: RuntimeCallOptions): Promise<void>;
  imageFsInfo(call?: RuntimeCallOptions): Promise<{ readonly mountpoint: string; readonly usedBytes: number; readonly inodesUsed: number }>;
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
  /** Makes `instanceof` work across two copies of this package: Oarlock's and a plugin's. */
  static override [Symbol.hasInstance](value: unknown): boolean {
    return typeof value === 'object' && value !== null && brand in value;
  }
  get [brand](): true {
    return true;
  }
  override readonly name = 'RuntimeError';
  readonly code: RuntimeErrorCode;
  /** The runtime's own message, without prefixes of its protocol. It appears in container statuses and events. Default: `message`. */
  readonly runtimeMessage: string;
  constructor(code: RuntimeErrorCode, message: string, options?: ErrorOptions & { readonly runtimeMessage?: string }) {
    super(message, options);
    this.code = code;
    this.runtimeMessage = options?.runtimeMessage ?? message;
  }
}

/**
 * Plugins declare `{ invokesCni, images, networkNamespaces }` with the values of their traits. RuntimeClass handlers select a runtime by its plugin
 * name.
 */
export const Runtime = slot.named<RuntimeDriver>('runtime/v1');
