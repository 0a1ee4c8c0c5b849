import type { Pod } from '@oarlock/api/types/core-v1';
import type { Clock } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import type { Client, EventRecorder } from '@oarlock/spi/client';
import type { ClusterFacts } from '@oarlock/spi/cluster';
import type { NetworkDriver } from '@oarlock/spi/network';
import type { NetworkPolicies } from '@oarlock/spi/policy';
import type { Tracer } from '@opentelemetry/api';
import type { NodeCgroups } from './cgroups/node-cgroups.ts';
import type { DeviceManager } from './devices/device-manager.ts';
import type { ResourceClaims } from './devices/resource-claims.ts';
import type { ImageManager } from './images.ts';
import type { NodePaths } from './node-paths.ts';
import type { Pressure } from './node/thresholds.ts';
import type { ObjectCache } from './object-cache.ts';
import type { Amounts } from './resources.ts';
import type { RuntimeHub } from './runtime-hub.ts';
import type { ServiceEnvironment } from './service-environment.ts';
import type { PodStarts } from './pod-starts.ts';
import type { StatusManager } from './status-manager.ts';
import type { Deadlines } from './deadlines.ts';
import type { TurnQueue } from './turn-queue.ts';
import type { UserNamespaces } from './user-namespaces.ts';
import type { ServiceAccountTokens } from './volumes/service-account-tokens.ts';
import type { TrustBundles } from './volumes/trust-bundles.ts';
import type { VolumeManager } from './volumes/volume-manager.ts';
import type { VolumeUsages } from './volumes/volume-usages.ts';

/** A runtime as pods use it. */
export interface PodRuntime {
  readonly hub: RuntimeHub;
  readonly images: ImageManager;
  /** Makes no files, mounts or log directories for pods: nothing would read them. */
  readonly hollow: boolean;
}

/** What all kubelets of a process share. */
export interface KubeletContext {
  readonly clock: Clock;
  readonly log: Logger;
  readonly tracer: Tracer;
  readonly random: () => number;
  readonly client: Client;
  readonly facts: ClusterFacts;
  readonly paths: NodePaths;
  readonly objects: ObjectCache;
  readonly services: ServiceEnvironment;
  readonly statuses: StatusManager;
  readonly volumes: VolumeManager;
  readonly usages: VolumeUsages;
  readonly tokens: ServiceAccountTokens;
  readonly trust: TrustBundles;
  readonly users: UserNamespaces;
  readonly deadlines: Deadlines;
  readonly turns: TurnQueue;
  readonly starts: PodStarts;
  readonly network: NetworkDriver | undefined;
  /** Present where device plugins may register. */
  readonly devices: DeviceManager | undefined;
  readonly claims: ResourceClaims | undefined;
  /** Absent: whatever policies say, everything passes. */
  readonly policy: NetworkPolicies | undefined;
  readonly hostname: string;
  readonly cgroups: NodeCgroups;
  /** What pods may set besides the safe sysctls: names, or `prefix*`. */
  readonly unsafeSysctls: readonly string[];
  readonly resolvConf: string;
  /** Ended when the kubelet stops; pods go on running. */
  readonly signal: AbortSignal;
  /** @throws Error when the pod's RuntimeClass is unknown */
  runtimeFor(pod: Pod): Promise<{ readonly runtime: PodRuntime; readonly handler: string }>;
}

/** One node: what its pods need to know of it. */
export interface NodeContext extends KubeletContext {
  readonly name: string;
  readonly owner: string;
  readonly recorder: EventRecorder;
  readonly capacity: Amounts;
  readonly cgroupV2: boolean;
  readonly allocatable: Amounts;
  readonly pressure: Pressure;
  /** The machine is going down. */
  readonly goingDown: boolean;
  readonly addresses: readonly string[];
  /** Whether pods can have their network yet. */
  readonly networkReady: boolean;
  /** Why not. */
  readonly networkProblem: string;
}
