import { mkdir } from 'node:fs/promises';
import { nodes } from '@oarlock/api/resources';
import type { Node, Pod } from '@oarlock/api/types/core-v1';
import { eventLoop } from '@oarlock/primitives/concurrency/event-loop';
import type { ClusterKeys } from '@oarlock/spi/cluster';
import type { Health } from '@oarlock/spi/role';
import type { DownwardApiValues } from '../pod-util/downward-api.ts';
import {
  createKubeletComponents,
  nodeNames,
  type KubeletEnvironment,
  type KubeletDependencies,
  type KubeletComponents,
} from './kubelet-context.ts';
import type { CredentialProviders } from '../images/credential-provider/credential-providers.ts';
import type { ImagePullManager } from '../images/pull-manager/image-pull-manager.ts';
import type { KubeletConfig } from '../config/kubelet-config.ts';
import type { ContainerLogManager } from '../kuberuntime/logs/container-log-manager.ts';
import type { KubeletContext, PodRuntime } from '../pod/node-context.ts';
import { nodeAgentOptions } from '../node/node-agent-options.ts';
import { defaultAddress, readMachine } from '../node/machine.ts';
import { NodeAgent } from '../node/node-agent.ts';
import type { HeldAttachment, NodeNetworkSetup } from '../node/node-network.ts';
import { ShutdownInhibitor, createNodeShutdownManager, type NodeShutdownManager } from '../node/node-shutdown-manager.ts';
import { createNodeNetworkSetup } from '../node/pod-network-setup.ts';
import { CoalescedTimers } from '../node/coalesced-timers.ts';
import { NodeStateManager } from '../node/node-state-manager.ts';
import { Housekeeping } from '../node/housekeeping.ts';
import { connectRuntimes } from './open-runtimes.ts';
import { createContainerLogManager } from './container-log-rotation.ts';
import { ApiServerSource } from '../pod/sources/api-server-source.ts';
import type { PodWorker } from '../pod/worker/pod-worker.ts';
import { runtimeForPod } from './runtime-class.ts';
import { createStaticPodSource } from '../pod/sources/create-static-pod-source.ts';
import type { StaticPodSource } from '../pod/sources/static-pod-source.ts';
import { podUid } from '../pod-util/pods.ts';
import { Semaphore } from '@oarlock/primitives/concurrency/semaphore';

/** The maximum number of nodes that register concurrently. */
const maxParallelRegistrations = 64;
/** The tick of the lease renewal timers that many nodes share. Milliseconds. */
const leaseTickMs = 100;
const isLoopback = (host: string) => host === 'localhost' || host === '::1' || host.startsWith('127.');

/** The kubelet of this process: one node, or many on a simulated runtime. */
export class Kubelet {
  readonly config: KubeletConfig;
  readonly keys: ClusterKeys;
  /** The address of all nodes of the process. */
  readonly address: string;
  readonly agents: ReadonlyMap<string, NodeAgent>;
  readonly #dependencies: KubeletDependencies;
  readonly #components: KubeletComponents;
  readonly #observe: KubeletEnvironment['observe'];
  readonly #stop = new AbortController();
  #nodeState: NodeStateManager | undefined;
  #network: NodeNetworkSetup | undefined;
  #containerLogManager: ContainerLogManager | undefined;
  #housekeeping: Housekeeping | undefined;
  /** The manager of graceful node shutdown; undefined if graceful node shutdown is disabled. */
  shutdown: NodeShutdownManager | undefined;
  #shutdownInhibitor: ShutdownInhibitor | undefined;
  #static: StaticPodSource | undefined;
  #initialized: Promise<void> | undefined;
  #ready = false;

  /** Creates the kubelet's components without I/O. @throws Error if the configured runtimes do not support the configuration */
  constructor(needs: KubeletDependencies, environment: KubeletEnvironment) {
    this.#dependencies = needs;
    const { config, facts } = needs;
    this.config = config;
    this.#observe = environment.observe;
    this.keys = needs.keys;
    const server = new URL(facts.serverUrl).hostname.replace(/^\[|\]$/g, '');
    this.address = config.address ?? (isLoopback(server) ? '127.0.0.1' : defaultAddress());
    this.#components = createKubeletComponents(needs, {
      kubeletEnvironment: environment,
      signal: AbortSignal.any([environment.signal, this.#stop.signal]),
      callbacks: {
        runtimeFor: (pod) => runtimeForPod(pod, this.#components, needs.informers),
        downwardApiValues: (pod) => this.#podFacts(pod),
        allocatable: (pod) => this.#agentOf(pod)?.context.allocatable ?? {},
        emptyDirOnDisk: (pod, volume, why) =>
          this.#agentOf(pod)?.context.recorder.event(
            pod,
            'Warning',
            'VolumeOnDisk',
            `emptyDir "${volume.name}" requests medium Memory but is on disk, because ${why}`,
          ),
        localVolumeGroupConflict: (pod, _volume, message) =>
          this.#agentOf(pod)?.context.recorder.event(pod, 'Warning', 'AlreadyMountedVolume', message),
        imagesChanged: () => this.#nodeState?.imagesChanged(),
        devicesChanged: () => {
          this.#nodeState?.devicesChanged();
          for (const agent of this.agents.values()) {
            void agent.report();
            for (const uid of this.context.deviceManager?.podsWithDevices ?? []) agent.pods.get(uid)?.wake(undefined);
          }
        },
      },
    });
    const ticks = config.count === undefined ? undefined : new CoalescedTimers(this.context.clock, leaseTickMs);
    this.agents = new Map(nodeNames(config).map((name) => [name, this.#createAgent(name, ticks)]));
  }

  get context(): KubeletContext {
    return this.#components.context;
  }
  get runtimes(): Iterable<PodRuntime> {
    return this.#components.runtimes.values();
  }

  get credentialProviders(): CredentialProviders | undefined {
    return this.#components.credentialProviders;
  }

  /** The cgroup version of the machine; undefined before `start`. */
  get cgroupVersion(): 1 | 2 | undefined {
    return this.#nodeState && (this.#nodeState.current.machine.cgroupV2 ? 2 : 1);
  }

  get imagePullManager(): ImagePullManager | undefined {
    return this.#components.imagePullManager;
  }

  /** Starts the kubelet. `port` is the port of the kubelet's API. Resolves before the nodes are registered; `ready` waits for the registration. */
  async start(port: number): Promise<void> {
    const { paths, clock, log, signal, network, networkPolicies } = this.context;
    const { config, facts } = this.#dependencies;
    await this.credentialProviders?.load();
    await mkdir(paths.root, { recursive: true, mode: 0o700 });
    await mkdir(paths.pods, { recursive: true, mode: 0o750 });
    await mkdir(paths.logs, { recursive: true, mode: 0o755 });
    this.#nodeState = new NodeStateManager({
      config,
      kubeletVersion: facts.version,
      machine: await readMachine(paths.root),
      addresses: [this.address],
      port,
      rootDir: paths.root,
      pleg: this.#components.defaultRuntime.pleg,
      plegs: [...this.runtimes].map(({ pleg }) => pleg),
      network,
      policy: networkPolicies,
      clock,
      log,
      signal,
      observe: this.#observe,
      devices: this.context.deviceManager,
    });
    this.#housekeeping = new Housekeeping({
      config,
      clock,
      log,
      metrics: this.context.metrics.evictions,
      signal,
      nodeState: this.#nodeState,
      runtimes: [...this.runtimes],
      imagePullManager: this.imagePullManager,
      agents: this.agents,
    });
    this.#initialized = this.#initialize();
    // `ready` reports the rejection to its caller
    this.#initialized.catch((error: unknown) => {
      if (!signal.aborted) log.error({ err: error }, 'starting the kubelet failed');
    });
  }

  /** Resolves when all nodes are registered and each of their pods has a worker. */
  async ready(): Promise<void> {
    await this.#initialized;
  }

  health(): Health {
    const problems = this.#nodeState?.current.problems ?? ['not started'];
    return this.#ready && problems.length === 0
      ? { healthy: true }
      : { healthy: false, reason: problems[0] ?? 'the node is not registered yet' };
  }

  /** Stops the kubelet. Pods keep running. */
  async stop(): Promise<void> {
    this.#stop.abort(new Error('the kubelet stops'));
    this.#containerLogManager?.stop();
    this.#housekeeping?.stop();
    this.#shutdownInhibitor?.stop();
    this.#static?.stop();
    for (const agent of this.agents.values()) agent.stop();
    for (const { pleg } of this.runtimes) pleg.close();
    const { statusManager: statuses, deadlines, objectCache: objects } = this.context;
    statuses.stop();
    deadlines.close();
    objects.close();
    await this.#initialized?.catch(() => undefined);
    await this.context.deviceManager?.stop();
    await this.context.draManager?.stop();
    await this.context.containerManager.close();
  }

  #agentOf = (pod: Pod): NodeAgent | undefined => this.agents.get(pod.spec?.nodeName ?? '');

  #createAgent(name: string, ticks: CoalescedTimers | undefined): NodeAgent {
    return new NodeAgent(this.context, {
      ...nodeAgentOptions(this.config, this.keys, this.#dependencies.events.recorder('kubelet', name)),
      name,
      timers: ticks,
      nodeState: () => {
        if (!this.#nodeState) throw new Error('the kubelet has not started');
        return this.#nodeState.current;
      },
      podCIDRsChanged: (cidrs) => {
        void this.#network?.setPodCIDRs(cidrs);
      },
    });
  }

  async #initialize(): Promise<void> {
    const { informers, config } = this.#dependencies;
    const { signal } = this.context;
    const nodeName = config.count === undefined ? config.nodeName : undefined;
    await connectRuntimes(this.runtimes, this.context);
    await this.imagePullManager?.load(signal);
    if (this.#nodeState) await this.context.containerManager.open(this.runtimes, this.#nodeState.current.machine.capacity);
    await this.context.deviceManager?.start();
    await this.context.draManager?.start();
    this.#nodeState?.devicesChanged();
    const source = new ApiServerSource(this.context, this.agents);
    const heldAttachments = await source.listRuntimePods(this.runtimes);
    await this.#nodeState?.refresh();
    this.#startNetworkSetup(heldAttachments);
    await this.#startStaticPods(source);
    const observe = (node: Node) => this.agents.get(node.metadata?.name ?? '')?.nodeUpdated(node);
    informers
      .forResource(nodes, nodeName === undefined ? {} : { fieldSelector: `metadata.name=${nodeName}` })
      .addEventHandler({ onAdd: observe, onUpdate: observe });
    await Promise.all([this.#register(), source.start(informers, nodeName)]);
    signal.throwIfAborted();
    const present = (uid: string) => [...this.agents.values()].some(({ pods }) => pods.get(uid) !== undefined);
    this.context.deviceManager?.removeStalePods(present);
    void this.context.draManager?.removeStalePods(present, signal);
    await this.context.containerManager.removeOrphanedPodCgroups(present);
    this.#ready = true;
    this.#scheduleNodeStatusUpdate();
    this.#containerLogManager = [...this.runtimes].every(({ hollow }) => hollow)
      ? undefined
      : createContainerLogManager(() => this.#workers(), this.context, config);
    this.#containerLogManager?.start();
    this.#housekeeping?.start();
    await this.#startShutdownManager();
  }

  async #startShutdownManager(): Promise<void> {
    this.shutdown = createNodeShutdownManager(this.config, this.context, {
      pods: () => this.#workers(),
      changed: (down) => {
        this.#nodeState?.setShuttingDown(down);
        for (const agent of this.agents.values()) void agent.report();
      },
    });
    if (this.shutdown === undefined || this.config.count !== undefined) return;
    this.#shutdownInhibitor = new ShutdownInhibitor(this.shutdown, this.context.log);
    await this.#shutdownInhibitor.start();
  }

  /** Starts the static pods before the first request to the API server, because a static pod may be the API server. */
  async #startStaticPods(source: ApiServerSource): Promise<void> {
    const [agent] = this.agents.values();
    this.#static = agent && createStaticPodSource(this.config, { context: this.context, agent, source });
    await this.#static?.start();
  }

  #startNetworkSetup(heldAttachments: readonly HeldAttachment[]): void {
    const { config, facts } = this.#dependencies;
    const { network, networkPolicies: policy } = this.context;
    policy?.startForNode(config.nodeName);
    for (const driver of this.#dependencies.volumes.values()) driver.setNodeName?.(config.nodeName);
    if (!network) return;
    const setup = createNodeNetworkSetup({
      context: this.context,
      network,
      nodeName: config.nodeName,
      facts,
      addresses: [this.address],
      runtimes: () => this.runtimes,
      nodeState: () => this.#nodeState,
      agents: this.agents,
      heldAttachments,
    });
    this.#network = setup;
    if (setup.worksWithoutPodCIDR) void setup.setPodCIDRs(config.podCIDR === undefined ? [] : [config.podCIDR]);
  }

  async #register(): Promise<void> {
    const gate = new Semaphore(maxParallelRegistrations);
    await Promise.all([...this.agents.values()].map((agent) => gate.run(this.context.signal, () => agent.start())));
  }

  #scheduleNodeStatusUpdate(): void {
    const { clock, signal, log } = this.context;
    clock.after(this.config.nodeStatusUpdateMs, () => {
      if (signal.aborted) return;
      void this.#updateNodeStates()
        .catch((error: unknown) => {
          if (!signal.aborted) log.warn({ err: error }, "collecting the node's state failed");
        })
        .finally(() => this.#scheduleNodeStatusUpdate());
    });
  }

  async #updateNodeStates(): Promise<void> {
    const wasReady = this.#nodeState?.current.networkReady;
    await this.#nodeState?.refresh();
    await this.#housekeeping?.synchronizeEvictions(this.#nodeState?.metThresholds ?? []);
    const networkBecameReady = wasReady === false && this.#nodeState?.current.networkReady === true;
    for (const agent of this.agents.values()) {
      if (networkBecameReady) agent.pods.wakeSyncingPods();
      void agent.report();
      while (eventLoop.shouldYield) await eventLoop.yield();
    }
  }

  *#workers(): Generator<PodWorker> {
    for (const agent of this.agents.values()) yield* agent.pods.workers;
  }

  #podFacts(pod: Pod): DownwardApiValues {
    const agent = this.#agentOf(pod);
    const hostIPs = agent?.context.addresses ?? [];
    const ips = agent?.pods.get(podUid(pod))?.state.podIPs ?? [];
    return { podIPs: pod.spec?.hostNetwork ? hostIPs : ips, hostIPs, nodeName: pod.spec?.nodeName ?? '' };
  }
}
