import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { silentLogger, type Logger } from '@oarlock/primitives/logger';
import { noTracer } from '@oarlock/kernel/tracing';
import { pods } from '@oarlock/api/resources';
import type { Container, Pod, PodSpec } from '@oarlock/api/types/core-v1';
import { SimulatedRuntime, type SimulatedOptions } from '@oarlock/runtime-simulated/simulated-runtime';
import type { EventRecorder, EventRecorderFactory } from '@oarlock/spi/client';
import type { ClusterFacts, ClusterKeys } from '@oarlock/spi/cluster';
import type { NetworkDriver } from '@oarlock/spi/network';
import type { RuntimeDriver } from '@oarlock/spi/runtime';
import type { VolumeDriver } from '@oarlock/spi/volume';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi, sequence, type MemoryApi } from '@oarlock/testing/memory-api';
import type { Tracer } from '@opentelemetry/api';
import { Registry } from 'prom-client';
import { kubeletConfig, type KubeletConfig } from '../../src/config/kubelet-config.ts';
import type { KubeletEnvironment } from '../../src/kubelet/kubelet-context.ts';
import { Kubelet } from '../../src/kubelet/kubelet.ts';
import { unmountAll } from '../../src/volumes/internal/mount-points.ts';

export const facts: ClusterFacts = {
  name: 'test',
  domain: 'cluster.local',
  podCIDRs: ['10.244.0.0/16'],
  serviceCIDRs: ['10.96.0.0/16'],
  kubernetesServiceIP: '10.96.0.1',
  dnsServiceIP: '10.96.0.10',
  serverUrl: 'https://127.0.0.1:6443',
  nodePortRange: { from: 30_000, to: 32_767 },
  version: 'v1.36.0+oarlock.0.1.0',
};
export const noKeys: ClusterKeys = {
  caBundle: '',
  issue: () => Promise.reject(new Error('no keys in this test')),
  sign: () => Promise.reject(new Error('no keys in this test')),
  serviceAccount: { issuer: '', signingKey: '', verifyingKeys: [] },
};

/** Records events in order, as `Normal Pulled spec.containers{app}: ...`. */
export class Events implements EventRecorderFactory {
  readonly lines: string[] = [];
  recorder(): EventRecorder {
    return {
      event: (about, type, reason, message, fieldPath) => {
        this.lines.push(`${about.metadata?.name} ${type} ${reason}${fieldPath === undefined ? '' : ` ${fieldPath}`}: ${message}`);
      },
    };
  }
  of(reason: string): readonly string[] {
    return this.lines.filter((line) => line.split(' ')[2]?.replace(':', '') === reason);
  }
}

export interface BenchOptions {
  readonly config?: Partial<KubeletConfig>;
  readonly runtime?: SimulatedOptions;
  readonly network?: NetworkDriver;
  readonly volumes?: ReadonlyMap<string, VolumeDriver>;
  readonly log?: Logger;
  readonly keys?: ClusterKeys;
  readonly tracer?: Tracer;
  readonly clock?: FakeClock;
  readonly observe?: NonNullable<KubeletEnvironment['observe']>;
  readonly wrap?: (driver: SimulatedRuntime) => RuntimeDriver;
}

/** A node on a simulated clock: an API in memory, the simulated runtime, and a kubelet that can be restarted. */
export class Bench {
  readonly clock: FakeClock;
  readonly api: MemoryApi;
  readonly runtime: SimulatedRuntime;
  readonly driver: RuntimeDriver;
  readonly events = new Events();
  readonly directory = mkdtempSync(join(tmpdir(), 'oarlock-kubelet-'));
  readonly #options: BenchOptions;
  kubelet: Kubelet;
  /** The event metrics of the current kubelet. */
  registry = new Registry();
  #abort = new AbortController();

  constructor(options: BenchOptions = {}) {
    this.#options = options;
    this.clock = options.clock ?? new FakeClock();
    this.api = memoryApi({ clock: this.clock });
    this.runtime = new SimulatedRuntime(this.clock, options.runtime);
    this.driver = options.wrap?.(this.runtime) ?? this.runtime;
    this.kubelet = this.#make();
  }

  #make(): Kubelet {
    this.#abort = new AbortController();
    this.registry = new Registry();
    const { config, network, volumes = new Map(), log = silentLogger, tracer = noTracer, keys = noKeys, observe } = this.#options;
    return new Kubelet(
      {
        client: this.api.client(),
        informers: this.api.informers,
        events: this.events,
        runtimes: new Map([['simulated', this.driver]]),
        network,
        policy: undefined,
        volumes,
        facts,
        keys,
        config: { ...kubeletConfig.parse({ nodeName: 'node-a', address: '10.0.0.1', cgroupsPerQos: false }), ...config },
      },
      {
        clock: this.clock,
        log,
        tracer,
        signal: this.#abort.signal,
        dataDir: this.directory,
        metrics: this.registry,
        random: sequence(7),
        ...(observe && { observe }),
      },
    );
  }

  async start(): Promise<this> {
    await this.kubelet.start(10_250);
    await this.kubelet.ready();
    await this.clock.settle();
    return this;
  }

  /** Kills the kubelet and starts a new one: its memory is lost, the runtime keeps running. */
  async restart(awayMs = 0): Promise<void> {
    this.#abort.abort();
    await this.clock.advance(awayMs);
    await this.kubelet.stop();
    this.kubelet = this.#make();
    await this.start();
  }

  async dispose(): Promise<void> {
    this.#abort.abort();
    await this.kubelet.stop();
    await this.api.stop();
    await unmountAll(this.directory);
    rmSync(this.directory, { recursive: true, force: true });
  }

  pod(name: string): Pod | undefined {
    return this.api.object(pods, { namespace: 'default', name });
  }
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** Advances the clock until the condition holds. */
  async until(
    name: string,
    holds: (pod: Pod | undefined) => boolean,
    { within = 600_000, what = 'the condition holds' } = {},
  ): Promise<Pod> {
    try {
      await this.clock.runUntil(() => holds(this.pod(name)), { within, what });
    } catch (cause) {
      throw new Error(`${what}: ${JSON.stringify(this.pod(name)?.status, undefined, 1)}\n${this.events.lines.join('\n')}`, { cause });
    }
    return this.pod(name) as Pod;
  }
  ready(name: string): Promise<Pod> {
    return this.until(name, (pod) => isReady(pod), { what: `${name} is ready` });
  }

  /** Stores a pod that is bound to the node, as after scheduling. */
  create(pod: Pod): Pod {
    const [stored] = this.api.seed(pods, pod);
    return stored as Pod;
  }
  change(name: string, change: (pod: Pod) => Pod): void {
    this.api.seed(pods, change(this.pod(name) as Pod));
  }
  delete(name: string, gracePeriodSeconds?: number) {
    return this.api.client().delete(pods, { namespace: 'default', name }, gracePeriodSeconds === undefined ? {} : { gracePeriodSeconds });
  }

  requests(verb: string, resource: string, subresource = ''): number {
    return this.api.requests.filter(
      (request) => request.verb === verb && request.resource.resource === resource && request.subresource === subresource,
    ).length;
  }
}

/** Returns the driver with other traits. */
export function withTraits(driver: SimulatedRuntime, traits: Partial<RuntimeDriver['traits']>): RuntimeDriver {
  return new Proxy<RuntimeDriver>(driver, {
    get(target, key) {
      if (key === 'traits') return { ...target.traits, ...traits };
      const value = Reflect.get(target, key) as unknown;
      return typeof value === 'function' ? (value as (...args: unknown[]) => unknown).bind(target) : value;
    },
  });
}

export const isReady = (pod: Pod | undefined): boolean =>
  pod?.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') === true;
export const container = (pod: Pod | undefined, name = 'app') =>
  [
    ...(pod?.status?.initContainerStatuses ?? []),
    ...(pod?.status?.containerStatuses ?? []),
    ...(pod?.status?.ephemeralContainerStatuses ?? []),
  ].find((status) => status.name === name);

export const app = (overrides: Partial<Container> = {}): Container => ({
  name: 'app',
  image: 'registry.test/app:1',
  imagePullPolicy: 'IfNotPresent',
  terminationMessagePath: '/dev/termination-log',
  terminationMessagePolicy: 'File',
  ...overrides,
});
export function podOf(name: string, spec: Partial<PodSpec> = {}, annotations: Readonly<Record<string, string>> = {}): Pod {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace: 'default', annotations },
    spec: {
      nodeName: 'node-a',
      restartPolicy: 'Always',
      terminationGracePeriodSeconds: 30,
      dnsPolicy: 'ClusterFirst',
      containers: [app()],
      ...spec,
    },
    status: { phase: 'Pending', qosClass: 'BestEffort' },
  };
}
