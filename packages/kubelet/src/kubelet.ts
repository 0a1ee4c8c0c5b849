import { mkdir } from 'node:fs/promises';
import { nodes } from '@oarlock/api/resources';
import type { Node, Pod } from '@oarlock/api/types/core-v1';
import { eventLoop } from '@oarlock/kernel/event-loop';
import type { ClusterKeys } from '@oarlock/spi/cluster';
import type { Health } from '@oarlock/spi/role';
import type { PodFacts } from './field-values.ts';
import { kubeletParts, nodeNames, type KubeletEnvironment, type KubeletNeeds, type KubeletParts } from './kubelet-context.ts';
import type { KubeletConfig } from './kubelet-config.ts';
import type { LogRotation } from './log-rotation.ts';
import type { KubeletContext, PodRuntime } from './node-context.ts';
import { agentOptions } from './node/agent-options.ts';
import { defaultAddress, readMachine } from './node/machine.ts';
import { NodeAgent } from './node/node-agent.ts';
import type { Held, NodeNetworkSetup } from './node/node-network.ts';
import { ShutdownWatch, shutdownOf, type NodeShutdown } from './node/node-shutdown.ts';
import { podNetwork } from './node/pod-network.ts';
import { SharedTicks } from './node/shared-ticks.ts';
import { Situation } from './node/situation.ts';
import { Upkeep } from './node/upkeep.ts';
import { openRuntimes } from './open-runtimes.ts';
import { rotationOf } from './pod-logs.ts';
import { PodSource } from './pod-source.ts';
import type { PodWorker } from './pod-worker.ts';
import { runtimeOf } from './runtime-choice.ts';
import { staticPodsOf } from './static/from-config.ts';
import type { StaticPods } from './static/static-pods.ts';
import { podUid } from './pods.ts';
import { Semaphore } from './semaphore.ts';

/** Nodes that register at the same time. */
const registering = 64;
/** Renewals of many nodes within such a time are made together. */
const leaseTickMs = 100;
const isLoopback = (host: string) => host === 'localhost' || host === '::1' || host.startsWith('127.');

/** The kubelet of this process: one node, or many on a simulated runtime. */
export class Kubelet {
  readonly config: KubeletConfig;
  readonly keys: ClusterKeys;
  /** The nodes' address. */
  readonly address: string;
  readonly agents: ReadonlyMap<string, NodeAgent>;
  readonly #needs: KubeletNeeds;
  readonly #parts: KubeletParts;
  readonly #observe: KubeletEnvironment['observe'];
  readonly #stop = new AbortController();
  #situation: Situation | undefined;
  #network: NodeNetworkSetup | undefined;
  #rotation: LogRotation | undefined;
  #upkeep: Upkeep | undefined;
  /** Present when pods are given time as the machine goes down. */
  shutdown: NodeShutdown | undefined;
  #shutdownWatch: ShutdownWatch | undefined;
  #static: StaticPods | undefined;
  #booted: Promise<void> | undefined;
  #up = false;

  /** Wires; no I/O. @throws Error for a config that the runtimes cannot fulfil */
  constructor(needs: KubeletNeeds, environment: KubeletEnvironment) {
    this.#needs = needs;
    const { config, facts } = needs;
    this.config = config;
    this.#observe = environment.observe;
    this.keys = needs.keys;
    const server = new URL(facts.serverUrl).hostname.replace(/^\[|\]$/g, '');
    this.address = config.address ?? (isLoopback(server) ? '127.0.0.1' : defaultAddress());
    this.#parts = kubeletParts(needs, environment, AbortSignal.any([environment.signal, this.#stop.signal]), {
      runtimeFor: (pod) => runtimeOf(pod, this.#parts, needs.informers),
      facts: (pod) => this.#podFacts(pod),
      allocatable: (pod) => this.#agentOf(pod)?.context.allocatable ?? {},
      onDisk: (pod, volume, why) =>
        this.#agentOf(pod)?.context.recorder.event(
          pod,
          'Warning',
          'VolumeOnDisk',
          `emptyDir "${volume.name}" asks for memory and is on disk, because ${why}`,
        ),
      onShared: (pod, _volume, said) => this.#agentOf(pod)?.context.recorder.event(pod, 'Warning', 'AlreadyMountedVolume', said),
      imagesChanged: () => this.#situation?.imagesChanged(),
      devicesChanged: () => {
        this.#situation?.devicesChanged();
        for (const agent of this.agents.values()) {
          void agent.report();
          for (const uid of this.context.devices?.holders ?? []) agent.pods.get(uid)?.wake(undefined);
        }
      },
    });
    const ticks = config.count === undefined ? undefined : new SharedTicks(this.context.clock, leaseTickMs);
    this.agents = new Map(nodeNames(config).map((name) => [name, this.#agent(name, ticks)]));
  }

  get context(): KubeletContext {
    return this.#parts.context;
  }
  get runtimes(): Iterable<PodRuntime> {
    return this.#parts.runtimes.values();
  }

  /** Begins; `port` is where the kubelet's API listens. Resolves soon: what has to be waited for is waited for in the background. */
  async start(port: number): Promise<void> {
    const { paths, clock, log, signal, network } = this.context;
    const { config, facts } = this.#needs;
    await mkdir(paths.root, { recursive: true, mode: 0o700 });
    await mkdir(paths.pods, { recursive: true, mode: 0o750 });
    await mkdir(paths.logs, { recursive: true, mode: 0o755 });
    this.#situation = new Situation({
      config,
      kubeletVersion: facts.version,
      machine: await readMachine(paths.root),
      addresses: [this.address],
      port,
      rootDir: paths.root,
      hub: this.#parts.defaultRuntime.hub,
      network,
      clock,
      log,
      signal,
      observe: this.#observe,
      devices: this.context.devices,
    });
    this.#upkeep = new Upkeep({
      config,
      clock,
      log,
      signal,
      situation: this.#situation,
      runtimes: [...this.runtimes],
      agents: this.agents,
    });
    this.#booted = this.#boot();
    // asked for by `ready`, and told there
    this.#booted.catch((error: unknown) => {
      if (!signal.aborted) log.error({ err: error }, 'the kubelet could not begin');
    });
  }

  /** Resolves when all nodes are registered and their pods are looked after. */
  async ready(): Promise<void> {
    await this.#booted;
  }

  health(): Health {
    const problems = this.#situation?.current.problems ?? ['not started'];
    return this.#up && problems.length === 0
      ? { healthy: true }
      : { healthy: false, because: problems[0] ?? 'the node is not registered yet' };
  }

  /** Leaves the pods running. */
  async stop(): Promise<void> {
    this.#stop.abort(new Error('the kubelet stops'));
    this.#rotation?.stop();
    this.#upkeep?.stop();
    this.#shutdownWatch?.stop();
    this.#static?.stop();
    for (const agent of this.agents.values()) agent.stop();
    for (const { hub } of this.runtimes) hub.close();
    const { statuses, deadlines, objects } = this.context;
    statuses.stop();
    deadlines.close();
    objects.close();
    await this.#booted?.catch(() => undefined);
    await this.context.devices?.stop();
    await this.context.claims?.stop();
    await this.context.cgroups.close();
  }

  #agentOf = (pod: Pod): NodeAgent | undefined => this.agents.get(pod.spec?.nodeName ?? '');

  #agent(name: string, ticks: SharedTicks | undefined): NodeAgent {
    return new NodeAgent(this.context, {
      ...agentOptions(this.config, this.keys, this.#needs.events.recorder('kubelet', name)),
      name,
      ticks,
      situation: () => {
        if (!this.#situation) throw new Error('the kubelet has not started');
        return this.#situation.current;
      },
      podCIDRs: (cidrs) => {
        void this.#network?.use(cidrs);
      },
    });
  }

  async #boot(): Promise<void> {
    const { informers, config } = this.#needs;
    const { signal } = this.context;
    const nodeName = config.count === undefined ? config.nodeName : undefined;
    await openRuntimes(this.runtimes, this.context);
    if (this.#situation) await this.context.cgroups.open(this.runtimes, this.#situation.current.machine.capacity);
    await this.context.devices?.start();
    await this.context.claims?.start();
    this.#situation?.devicesChanged();
    const source = new PodSource(this.context, this.agents);
    const held = await source.look(this.runtimes);
    await this.#situation?.refresh();
    this.#setUpNetwork(held);
    await this.#runStatic(source);
    const observe = (node: Node) => this.agents.get(node.metadata?.name ?? '')?.observed(node);
    informers
      .of(nodes, nodeName === undefined ? {} : { fieldSelector: `metadata.name=${nodeName}` })
      .on({ added: observe, updated: observe });
    await Promise.all([this.#register(), source.follow(informers, nodeName)]);
    signal.throwIfAborted();
    const present = (uid: string) => [...this.agents.values()].some(({ pods }) => pods.get(uid) !== undefined);
    this.context.devices?.keep(present);
    void this.context.claims?.keep(present, signal);
    await this.context.cgroups.keep(present);
    this.#up = true;
    this.#tick();
    this.#rotation = [...this.runtimes].every(({ hollow }) => hollow) ? undefined : rotationOf(() => this.#workers(), this.context, config);
    this.#rotation?.start();
    this.#upkeep?.start();
    await this.#watchShutdown();
  }

  async #watchShutdown(): Promise<void> {
    this.shutdown = shutdownOf(this.config, this.context, {
      pods: () => this.#workers(),
      changed: (down) => {
        this.#situation?.goesDown(down);
        for (const agent of this.agents.values()) void agent.report();
      },
    });
    if (this.shutdown === undefined || this.config.count !== undefined) return;
    this.#shutdownWatch = new ShutdownWatch(this.shutdown, this.context.log);
    await this.#shutdownWatch.start();
  }

  /** Static pods begin before anything is asked of the API: it may be one of them. */
  async #runStatic(source: PodSource): Promise<void> {
    const [agent] = this.agents.values();
    this.#static = agent && staticPodsOf(this.config, this.context, agent, source);
    await this.#static?.start();
  }

  #setUpNetwork(ours: readonly Held[]): void {
    const { config, facts } = this.#needs;
    const { network, policy } = this.context;
    policy?.guard(config.nodeName);
    for (const driver of this.#needs.volumes.values()) driver.begin?.(config.nodeName);
    if (!network) return;
    const setup = podNetwork({
      context: this.context,
      network,
      nodeName: config.nodeName,
      facts,
      addresses: [this.address],
      runtimes: () => this.runtimes,
      situation: () => this.#situation,
      agents: this.agents,
      ours,
    });
    this.#network = setup;
    if (setup.needsNoRange) void setup.use(config.podCIDR === undefined ? [] : [config.podCIDR]);
  }

  async #register(): Promise<void> {
    const gate = new Semaphore(registering);
    await Promise.all([...this.agents.values()].map((agent) => gate.run(this.context.signal, () => agent.start())));
  }

  #tick(): void {
    const { clock, signal, log } = this.context;
    clock.after(this.config.nodeStatusUpdateMs, () => {
      if (signal.aborted) return;
      void this.#look()
        .catch((error: unknown) => {
          if (!signal.aborted) log.warn({ err: error }, "the node's state could not be looked at");
        })
        .finally(() => this.#tick());
    });
  }

  async #look(): Promise<void> {
    const wasReady = this.#situation?.current.networkReady;
    await this.#situation?.refresh();
    await this.#upkeep?.look(this.#situation?.shortages ?? []);
    const cameBack = wasReady === false && this.#situation?.current.networkReady === true;
    for (const agent of this.agents.values()) {
      if (cameBack) agent.pods.wakeAll();
      void agent.report();
      while (eventLoop.held) await eventLoop.turn();
    }
  }

  *#workers(): Generator<PodWorker> {
    for (const agent of this.agents.values()) yield* agent.pods.workers;
  }

  #podFacts(pod: Pod): PodFacts {
    const agent = this.#agentOf(pod);
    const hostIPs = agent?.context.addresses ?? [];
    const ips = agent?.pods.get(podUid(pod))?.state.podIPs ?? [];
    return { podIPs: pod.spec?.hostNetwork ? hostIPs : ips, hostIPs, nodeName: pod.spec?.nodeName ?? '' };
  }
}
