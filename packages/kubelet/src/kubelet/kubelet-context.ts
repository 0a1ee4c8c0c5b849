import { setMaxListeners } from 'node:events';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { services } from '@oarlock/api/resources';
import type { Pod, Volume } from '@oarlock/api/types/core-v1';
import type { PluginContext } from '@oarlock/kernel/plugin';
import type { Client, EventRecorderFactory, Informers } from '@oarlock/spi/client';
import type { ClusterFacts, ClusterKeys } from '@oarlock/spi/cluster';
import type { LocalNodes } from '@oarlock/spi/local-nodes';
import type { ProcessView } from '@oarlock/spi/process';
import type { NetworkDriver } from '@oarlock/spi/network';
import type { NetworkPolicies } from '@oarlock/spi/policy';
import type { RuntimeDriver } from '@oarlock/spi/runtime';
import type { VolumeDriver } from '@oarlock/spi/volume';
import { ContainerManager } from '../container-manager/container-manager.ts';
import { DeadlineTimers } from '../pod/deadlines.ts';
import type { DownwardApiValues } from '../pod-util/downward-api.ts';
import { DeviceManager } from '../container-manager/devices/device-manager.ts';
import { DRAManager } from '../container-manager/dra/dra-manager.ts';
import { CredentialProviders } from '../images/credential-provider/credential-providers.ts';
import { ImageManager } from '../images/image-manager.ts';
import { ImagePullManager, type ImagePullManagerOptions } from '../images/pull-manager/image-pull-manager.ts';
import type { KubeletConfig } from '../config/kubelet-config.ts';
import { kubeletOwnerId } from '../runtime/labels.ts';
import type { KubeletContext, PodRuntime } from '../pod/node-context.ts';
import { EventMetrics } from '../metrics/event-metrics.ts';
import { NodePaths } from '../config/node-paths.ts';
import { ObjectCache } from '../api-objects/object-cache.ts';
import type { NodeStateManagerOptions } from '../node/node-state-manager.ts';
import type { Resources } from '../pod-util/resources.ts';
import { PLEG } from '../runtime/pleg.ts';
import { PodStartupLatencyTracker } from '../pod/pod-startup-latency-tracker.ts';
import { ServiceEnvironment } from '../pod/environment/service-environment.ts';
import { StatusManager } from '../status/status-manager.ts';
import { TaskQueue } from '@oarlock/primitives/concurrency/task-queue';
import { unavailableImages } from './image-runtime.ts';
import { UserNamespaceManager } from '../runtime/user-namespace-manager.ts';
import { inTreeVolumeDrivers } from '../volumes/in-tree-drivers.ts';
import { TokenManager } from '../api-objects/token-manager.ts';
import { TrustBundleManager } from '../api-objects/trust-bundle-manager.ts';
import { VolumeManager } from '../volumes/volume-manager.ts';
import { VolumeStatCalculator } from '../stats/volume-stat-calculator.ts';

export interface KubeletDependencies {
  readonly client: Client;
  readonly informers: Informers;
  readonly events: EventRecorderFactory;
  readonly runtimes: ReadonlyMap<string, RuntimeDriver>;
  readonly network: NetworkDriver | undefined;
  readonly policy: NetworkPolicies | undefined;
  readonly volumes: ReadonlyMap<string, VolumeDriver>;
  readonly facts: ClusterFacts;
  readonly keys: ClusterKeys;
  /** The process, whose certificate metrics the kubelet serves with its own. */
  readonly process?: Pick<ProcessView, 'certificateMetrics'> | undefined;
  /** The registry in which an API server of this process finds local kubelets. Undefined: the API server connects to the kubelet's listener. */
  readonly local?: LocalNodes | undefined;
  readonly config: KubeletConfig;
}
export type KubeletEnvironment = Pick<PluginContext, 'clock' | 'log' | 'tracer' | 'signal' | 'dataDir'> & {
  readonly random?: () => number;
  /** The registry of the kubelet's metrics. Undefined: they are not served. */
  readonly metrics?: PluginContext['metrics'];
  /** The environment that credential provider plugins inherit; by default that of the process. */
  readonly environment?: Readonly<Record<string, string | undefined>>;
  /** Overrides how the machine's eviction signals are observed. */
  readonly observe?: NodeStateManagerOptions['observe'];
};

/** The callbacks that the shared components need from the Kubelet that creates them. */
export interface KubeletCallbacks {
  runtimeFor(pod: Pod): Promise<{ readonly runtime: PodRuntime; readonly handler: string }>;
  downwardApiValues(pod: Pod): DownwardApiValues;
  allocatable(pod: Pod): Resources;
  emptyDirOnDisk(pod: Pod, volume: Volume, why: string): void;
  /** Called if a local volume already belongs to another group than the pod's fsGroup. */
  localVolumeGroupConflict(pod: Pod, volume: Volume, message: string): void;
  imagesChanged(): void;
  devicesChanged(): void;
}

export interface KubeletComponents {
  readonly context: KubeletContext;
  readonly runtimes: ReadonlyMap<string, PodRuntime>;
  /** The runtime of pods without a RuntimeClass. */
  readonly defaultRuntime: PodRuntime;
  /** Undefined if none are configured. */
  readonly credentialProviders: CredentialProviders | undefined;
  /** Undefined if no runtime of the node pulls images. */
  readonly imagePullManager: ImagePullManager | undefined;
}

export function nodeNames({ nodeName, count }: KubeletConfig): readonly string[] {
  return count === undefined ? [nodeName] : Array.from({ length: count }, (_, index) => `${nodeName}-${index}`);
}

/** What the components of all nodes of a process are created from. */
export interface KubeletComponentSources {
  readonly kubeletEnvironment: KubeletEnvironment;
  readonly signal: AbortSignal;
  readonly callbacks: KubeletCallbacks;
}

/** Creates the components that all kubelets of the process share, without I/O. @throws Error if the runtimes do not match the configuration */
export function createKubeletComponents(
  needs: KubeletDependencies,
  { kubeletEnvironment, signal, callbacks }: KubeletComponentSources,
): KubeletComponents {
  const { config, facts, client, informers } = needs;
  const { clock, log, tracer, dataDir, random = Math.random } = kubeletEnvironment;
  const metrics = new EventMetrics(clock, kubeletEnvironment.metrics);
  setMaxListeners(0, signal); // every node and every stream adds a listener
  const rootDir = config.rootDir ?? dataDir;
  const objects = new ObjectCache({ client, clock, random, log });
  const tokens = new TokenManager(client, clock);
  const trust = new TrustBundleManager(client, informers, signal);
  const credentialProviders = createCredentialProviders(needs, kubeletEnvironment, signal);
  const { imagesChanged } = callbacks;
  const imagePullManager = createImagePullManager(needs, { clock, log, rootDir });
  const runtimeDependencies = { clock, log, tracer, metrics, objects, rootDir, credentialProviders, imagePullManager, imagesChanged };
  const runtimes = createPodRuntimes(needs, runtimeDependencies);
  const defaultRuntime = selectDefaultRuntime(runtimes, config);
  const paths = new NodePaths(rootDir, config.logDir ?? join(rootDir, 'logs'), config.volatileDir ?? rootDir);
  const drivers = new Map([
    ...needs.volumes,
    ...inTreeVolumeDrivers(
      { objects, tokens, trust, clock, facts: callbacks.downwardApiValues, allocatable: callbacks.allocatable },
      { onDisk: callbacks.emptyDirOnDisk, onShared: callbacks.localVolumeGroupConflict },
    ),
  ]);
  const context: KubeletContext = {
    clock,
    log,
    tracer,
    metrics,
    random,
    client,
    facts,
    paths,
    objectCache: objects,
    tokenManager: tokens,
    trustBundleManager: trust,
    userNamespaceManager: new UserNamespaceManager(paths),
    signal,
    runtimeFor: callbacks.runtimeFor,
    turnQueue: new TaskQueue(),
    startupLatency: new PodStartupLatencyTracker(),
    deadlines: new DeadlineTimers(clock),
    serviceEnvironment: new ServiceEnvironment(informers.forResource(services), facts),
    statusManager: new StatusManager({ client, clock, random, log, tracer }),
    volumeManager: new VolumeManager({ drivers, client, paths, tokens, metrics: metrics.storage }),
    volumeStats: new VolumeStatCalculator({ clock, log, signal, periodMs: config.volumeStatsAggPeriodMs }),
    network: defaultRuntime.pleg.simulated ? undefined : needs.network,
    deviceManager:
      config.devicePluginDir === undefined
        ? undefined
        : new DeviceManager({ directory: config.devicePluginDir, log, signal, changed: callbacks.devicesChanged }),
    draManager:
      config.pluginRegistryDir === undefined
        ? undefined
        : new DRAManager({ registryDir: config.pluginRegistryDir, file: join(rootDir, 'dra_manager_state'), client, clock, log }),
    networkPolicies: defaultRuntime.pleg.simulated ? undefined : needs.policy,
    hostname: hostname(),
    containerManager: new ContainerManager({
      config,
      owner: kubeletOwnerId(facts.name, nodeNames(config)[0] ?? '', rootDir).slice(0, 12),
      clock,
      log,
    }),
    allowedUnsafeSysctls: config.allowedUnsafeSysctls,
    resolvConf: config.resolvConf,
    clusterDNS: config.clusterDNS ?? [facts.dnsServiceIP],
  };
  return { context, runtimes, defaultRuntime, credentialProviders, imagePullManager };
}

function createCredentialProviders(
  { config: { imageCredentialProviderConfig: configPath, imageCredentialProviderBinDir: binDir }, client }: KubeletDependencies,
  { clock, log, environment = process.env }: KubeletEnvironment,
  signal: AbortSignal,
): CredentialProviders | undefined {
  if (configPath === undefined || binDir === undefined) return undefined;
  return new CredentialProviders({ configPath, binDir, client, clock, log, environment, signal });
}

const isHollow = ({ traits }: RuntimeDriver, { files }: KubeletConfig): boolean => !(files ?? !traits.simulated);

function createImagePullManager(
  { config, runtimes }: KubeletDependencies,
  environment: Pick<ImagePullManagerOptions, 'clock' | 'log' | 'rootDir'>,
): ImagePullManager | undefined {
  const drivers = [...runtimes.values()].filter((driver) => driver.traits.images && !isHollow(driver, config));
  if (drivers.length === 0) return undefined;
  return new ImagePullManager({
    ...environment,
    verification: { policy: config.imagePullCredentialsVerificationPolicy, allowlist: config.preloadedImagesVerificationAllowlist },
    listImages: async (signal) => (await Promise.all(drivers.map((driver) => driver.listImages({ signal })))).flat(),
  });
}

interface PodRuntimeDependencies {
  readonly clock: KubeletEnvironment['clock'];
  readonly log: KubeletEnvironment['log'];
  readonly tracer: KubeletEnvironment['tracer'];
  readonly metrics: EventMetrics;
  readonly objects: ObjectCache;
  readonly rootDir: string;
  readonly credentialProviders: CredentialProviders | undefined;
  readonly imagePullManager: ImagePullManager | undefined;
  imagesChanged(): void;
}

/** Creates the PLEG and the image manager of each runtime. */
function createPodRuntimes(
  { config, facts, runtimes }: KubeletDependencies,
  { clock, log, tracer, metrics, objects, rootDir, credentialProviders, imagePullManager, imagesChanged }: PodRuntimeDependencies,
): ReadonlyMap<string, PodRuntime> {
  const ownerIds = new Set(nodeNames(config).map((name) => kubeletOwnerId(facts.name, name, rootDir)));
  const maxParallelPulls = config.maxParallelImagePulls;
  return new Map(
    [...runtimes].map(([name, driver]): [string, PodRuntime] => {
      const pleg = new PLEG(name, driver, { clock, log, relistMs: config.syncFrequencyMs, ownerIds, metrics: metrics.pleg });
      const hollow = isHollow(driver, config);
      const imageManager = new ImageManager(driver, {
        objects,
        credentialProviders,
        pullManager: hollow || !driver.traits.images ? undefined : imagePullManager,
        clock,
        tracer,
        metrics: metrics.imagePulls,
        maxParallelPulls,
        imagesChanged,
        unavailableImages: (signal) => unavailableImages(runtimes, signal),
      });
      return [name, { pleg, imageManager, hollow }];
    }),
  );
}

function selectDefaultRuntime(runtimes: ReadonlyMap<string, PodRuntime>, { runtime, count }: KubeletConfig): PodRuntime {
  const [first] = runtimes.values();
  const chosen = runtime === undefined ? first : runtimes.get(runtime);
  if (!chosen)
    throw new Error(
      runtime === undefined
        ? 'the kubelet needs a runtime, but none is configured'
        : `there is no runtime named ${runtime}; there are: ${[...runtimes.keys()].join(', ')}`,
    );
  if (count !== undefined && ![...runtimes.values()].every(({ pleg }) => pleg.simulated))
    throw new Error('count requires simulated runtimes; run one process per node otherwise');
  return chosen;
}
