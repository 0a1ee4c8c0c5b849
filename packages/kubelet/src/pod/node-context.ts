import type { Pod } from '@oarlock/api/types/core-v1';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { Client, EventRecorder } from '@oarlock/spi/client';
import type { ClusterFacts } from '@oarlock/spi/cluster';
import type { NetworkDriver } from '@oarlock/spi/network';
import type { NetworkPolicies } from '@oarlock/spi/policy';
import type { Tracer } from '@opentelemetry/api';
import type { ContainerManager } from '../container-manager/container-manager.ts';
import type { DeviceManager } from '../container-manager/devices/device-manager.ts';
import type { DRAManager } from '../container-manager/dra/dra-manager.ts';
import type { ImageManager } from '../images/image-manager.ts';
import type { NodePaths } from '../config/node-paths.ts';
import type { EventMetrics } from '../metrics/event-metrics.ts';
import type { NodePressure } from '../pod-util/node-pressure.ts';
import type { ObjectCache } from '../api-objects/object-cache.ts';
import type { Resources } from '../pod-util/resources.ts';
import type { PLEG } from '../runtime/pleg.ts';
import type { ServiceEnvironment } from './environment/service-environment.ts';
import type { PodStartupLatencyTracker } from './pod-startup-latency-tracker.ts';
import type { StatusManager } from '../status/status-manager.ts';
import type { DeadlineTimers } from './deadlines.ts';
import type { TaskQueue } from '@oarlock/primitives/concurrency/task-queue';
import type { UserNamespaceManager } from '../runtime/user-namespace-manager.ts';
import type { TokenManager } from '../api-objects/token-manager.ts';
import type { TrustBundleManager } from '../api-objects/trust-bundle-manager.ts';
import type { VolumeManager } from '../volumes/volume-manager.ts';
import type { VolumeStatCalculator } from '../stats/volume-stat-calculator.ts';

/** A container runtime of the node, and the image manager of the runtime. */
export interface PodRuntime {
  readonly pleg: PLEG;
  readonly imageManager: ImageManager;
  /** True if the kubelet creates no files, mounts or log directories for pods of this runtime, as on kubemark's hollow nodes. */
  readonly hollow: boolean;
}

/** The clock, random source, logger and lifetime of the process. */
export interface ProcessContext {
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
  readonly tracer: Tracer;
  readonly metrics: EventMetrics;
  /** Aborts when the kubelet stops. Pods keep running. */
  readonly signal: AbortSignal;
  readonly deadlines: DeadlineTimers;
  readonly turnQueue: TaskQueue;
}

/** The API server's client, and caches of API objects. */
export interface ApiAccess {
  readonly client: Client;
  readonly facts: ClusterFacts;
  readonly objectCache: ObjectCache;
  readonly tokenManager: TokenManager;
  readonly trustBundleManager: TrustBundleManager;
  readonly serviceEnvironment: ServiceEnvironment;
  readonly statusManager: StatusManager;
  readonly startupLatency: PodStartupLatencyTracker;
}

/** The directories and volumes of pods. */
export interface VolumeServices {
  readonly paths: NodePaths;
  readonly volumeManager: VolumeManager;
  readonly volumeStats: VolumeStatCalculator;
}

/** The facilities of the machine for pods: cgroups, devices, user ids and the network. */
export interface MachineServices {
  readonly hostname: string;
  readonly resolvConf: string;
  /** DNS servers of pods with the policy ClusterFirst. If empty, these pods use the servers of `resolvConf`. */
  readonly clusterDNS: readonly string[];
  readonly containerManager: ContainerManager;
  readonly userNamespaceManager: UserNamespaceManager;
  /** The device manager; undefined unless `devicePluginDir` is configured. */
  readonly deviceManager: DeviceManager | undefined;
  /** The DRA manager; undefined unless `pluginRegistryDir` is configured. */
  readonly draManager: DRAManager | undefined;
  readonly network: NetworkDriver | undefined;
  /** The network policy plugin; undefined without one, in which case NetworkPolicies have no effect. */
  readonly networkPolicies: NetworkPolicies | undefined;
  /** The sysctls that pods may set in addition to the safe sysctls: names, or prefixes that end with `*`. */
  readonly allowedUnsafeSysctls: readonly string[];
}

/** The context that all kubelets of a process share. */
export interface KubeletContext extends ProcessContext, ApiAccess, VolumeServices, MachineServices {
  /** Returns the runtime and the runtime handler of the pod's RuntimeClass. @throws Error if the RuntimeClass does not exist */
  runtimeFor(pod: Pod): Promise<{ readonly runtime: PodRuntime; readonly handler: string }>;
}

/** The context of one node. Properties such as `allocatable` are getters of the current state. */
export interface NodeContext extends KubeletContext {
  readonly name: string;
  readonly owner: string;
  readonly recorder: EventRecorder;
  readonly capacity: Resources;
  readonly cgroupV2: boolean;
  readonly allocatable: Resources;
  readonly pressure: NodePressure;
  /** True while the machine shuts down. */
  readonly shuttingDown: boolean;
  readonly addresses: readonly string[];
  /** False until the network plugin and the runtime report that they can connect pods. */
  readonly networkReady: boolean;
  /** The reason why `networkReady` is false; empty if `networkReady` is true. */
  readonly networkNotReadyMessage: string;
}
