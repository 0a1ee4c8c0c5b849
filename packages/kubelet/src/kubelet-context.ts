import { setMaxListeners } from 'node:events';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { services } from '@oarlock/api/resources';
import type { Pod, Volume } from '@oarlock/api/types/core-v1';
import type { PluginContext } from '@oarlock/kernel/plugin';
import type { Client, EventSource, Informers } from '@oarlock/spi/client';
import type { ClusterFacts, ClusterKeys } from '@oarlock/spi/cluster';
import type { LocalNodes } from '@oarlock/spi/local-nodes';
import type { NetworkDriver } from '@oarlock/spi/network';
import type { NetworkPolicies } from '@oarlock/spi/policy';
import type { RuntimeDriver } from '@oarlock/spi/runtime';
import type { VolumeDriver } from '@oarlock/spi/volume';
import { NodeCgroups } from './cgroups/node-cgroups.ts';
import { Deadlines } from './deadlines.ts';
import type { PodFacts } from './field-values.ts';
import { DeviceManager } from './devices/device-manager.ts';
import { ResourceClaims } from './devices/resource-claims.ts';
import { ImageManager } from './images.ts';
import type { KubeletConfig } from './kubelet-config.ts';
import { ownerId } from './labels.ts';
import type { KubeletContext, PodRuntime } from './node-context.ts';
import { NodePaths } from './node-paths.ts';
import { ObjectCache } from './object-cache.ts';
import type { SituationOptions } from './node/situation.ts';
import type { Amounts } from './resources.ts';
import { RuntimeHub } from './runtime-hub.ts';
import { PodStarts } from './pod-starts.ts';
import { ServiceEnvironment } from './service-environment.ts';
import { StatusManager } from './status-manager.ts';
import { TurnQueue } from './turn-queue.ts';
import { UserNamespaces } from './user-namespaces.ts';
import { builtinDrivers } from './volumes/builtin-drivers.ts';
import { ServiceAccountTokens } from './volumes/service-account-tokens.ts';
import { TrustBundles } from './volumes/trust-bundles.ts';
import { VolumeManager } from './volumes/volume-manager.ts';
import { VolumeUsages } from './volumes/volume-usages.ts';

export interface KubeletNeeds {
  readonly client: Client;
  readonly informers: Informers;
  readonly events: EventSource;
  readonly runtimes: ReadonlyMap<string, RuntimeDriver>;
  readonly network: NetworkDriver | undefined;
  readonly policy: NetworkPolicies | undefined;
  readonly volumes: ReadonlyMap<string, VolumeDriver>;
  readonly facts: ClusterFacts;
  readonly keys: ClusterKeys;
  /** Where the API server of this process looks for kubelets; absent: it reaches this one by its listener. */
  readonly local?: LocalNodes | undefined;
  readonly config: KubeletConfig;
}
export type KubeletEnvironment = Pick<PluginContext, 'clock' | 'log' | 'tracer' | 'signal' | 'dataDir'> & {
  readonly random?: () => number;
  /** Instead of looking at the machine. */
  readonly observe?: SituationOptions['observe'];
};

/** What the shared parts ask of the kubelet that puts them together. */
export interface KubeletQuestions {
  runtimeFor(pod: Pod): Promise<{ readonly runtime: PodRuntime; readonly handler: string }>;
  facts(pod: Pod): PodFacts;
  allocatable(pod: Pod): Amounts;
  onDisk(pod: Pod, volume: Volume, why: string): void;
  /** A local volume is another group's than the pod's. */
  onShared(pod: Pod, volume: Volume, said: string): void;
  imagesChanged(): void;
  devicesChanged(): void;
}

export interface KubeletParts {
  readonly context: KubeletContext;
  readonly runtimes: ReadonlyMap<string, PodRuntime>;
  /** Of pods without a RuntimeClass. */
  readonly defaultRuntime: PodRuntime;
}

export function nodeNames({ nodeName, count }: KubeletConfig): readonly string[] {
  return count === undefined ? [nodeName] : Array.from({ length: count }, (_, index) => `${nodeName}-${index}`);
}

/** Puts together what all kubelets of the process share. No I/O. @throws Error for a config that the runtimes cannot fulfil */
export function kubeletParts(
  needs: KubeletNeeds,
  { clock, log, tracer, dataDir, random = Math.random }: KubeletEnvironment,
  signal: AbortSignal,
  asked: KubeletQuestions,
): KubeletParts {
  const { config, facts, client, informers } = needs;
  setMaxListeners(0, signal); // every node and every stream listens to it
  const rootDir = config.rootDir ?? dataDir;
  const objects = new ObjectCache({ client, clock, random, log });
  const tokens = new ServiceAccountTokens(client, clock);
  const trust = new TrustBundles(client, informers, signal);
  const owners = new Set(nodeNames(config).map((name) => ownerId(facts.name, name, rootDir)));
  const runtimes = new Map(
    [...needs.runtimes].map(([name, driver]): [string, PodRuntime] => {
      const hub = new RuntimeHub(name, driver, { clock, log, relistMs: config.syncFrequencyMs, owners });
      const images = new ImageManager(driver, {
        objects,
        clock,
        tracer,
        parallel: config.maxParallelImagePulls,
        pulled: asked.imagesChanged,
      });
      return [name, { hub, images, hollow: !(config.files ?? !hub.simulated) }];
    }),
  );
  const defaultRuntime = chosenRuntime(runtimes, config);
  const paths = new NodePaths(rootDir, config.logDir ?? join(rootDir, 'logs'), config.volatileDir ?? rootDir);
  const drivers = new Map([
    ...needs.volumes,
    ...builtinDrivers(
      { objects, tokens, trust, clock, facts: asked.facts, allocatable: asked.allocatable },
      { onDisk: asked.onDisk, onShared: asked.onShared },
    ),
  ]);
  const context: KubeletContext = {
    clock,
    log,
    tracer,
    random,
    client,
    facts,
    paths,
    objects,
    tokens,
    trust,
    users: new UserNamespaces(paths),
    signal,
    runtimeFor: asked.runtimeFor,
    turns: new TurnQueue(),
    starts: new PodStarts(),
    deadlines: new Deadlines(clock),
    services: new ServiceEnvironment(informers.of(services), facts),
    statuses: new StatusManager({ client, clock, random, log, tracer }),
    volumes: new VolumeManager({ drivers, client, paths, tokens }),
    usages: new VolumeUsages({ clock, log, signal, periodMs: config.volumeStatsAggPeriodMs }),
    network: defaultRuntime.hub.simulated ? undefined : needs.network,
    devices:
      config.devicePluginDir === undefined
        ? undefined
        : new DeviceManager({ directory: config.devicePluginDir, log, signal, changed: asked.devicesChanged }),
    claims:
      config.pluginRegistryDir === undefined
        ? undefined
        : new ResourceClaims({ registryDir: config.pluginRegistryDir, file: join(rootDir, 'dra_manager_state'), client, clock, log }),
    policy: defaultRuntime.hub.simulated ? undefined : needs.policy,
    hostname: hostname(),
    cgroups: new NodeCgroups({ config, owner: ownerId(facts.name, nodeNames(config)[0] ?? '', rootDir).slice(0, 12), clock, log }),
    unsafeSysctls: config.allowedUnsafeSysctls,
    resolvConf: config.resolvConf,
  };
  return { context, runtimes, defaultRuntime };
}

function chosenRuntime(runtimes: ReadonlyMap<string, PodRuntime>, { runtime, count }: KubeletConfig): PodRuntime {
  const [first] = runtimes.values();
  const chosen = runtime === undefined ? first : runtimes.get(runtime);
  if (!chosen)
    throw new Error(
      runtime === undefined
        ? 'the kubelet needs a runtime, and none is placed'
        : `there is no runtime named ${runtime}; there are: ${[...runtimes.keys()].join(', ')}`,
    );
  if (count !== undefined && ![...runtimes.values()].every(({ hub }) => hub.simulated))
    throw new Error('count needs a runtime that is simulated: several nodes of one machine take a process each');
  return chosen;
}
