import { mkdir } from 'node:fs/promises';
import { parseQuantity, value } from '@oarlock/api/quantity';
import { nodes, runtimeClasses } from '@oarlock/api/resources';
import type { Node, Pod } from '@oarlock/api/types/core-v1';
import { Backoff } from '@oarlock/client/backoff';
import { eventLoop } from '@oarlock/kernel/event-loop';
import type { EventRecorder } from '@oarlock/spi/client';
import type { ClusterKeys } from '@oarlock/spi/cluster';
import type { Health } from '@oarlock/spi/role';
import type { PodFacts } from './field-values.ts';
import { kubeletParts, nodeNames, type KubeletEnvironment, type KubeletNeeds, type KubeletParts } from './kubelet-context.ts';
import type { KubeletConfig } from './kubelet-config.ts';
import { LogRotation, type WrittenLog } from './log-rotation.ts';
import type { KubeletContext, PodRuntime } from './node-context.ts';
import { defaultAddress, readMachine } from './node/machine.ts';
import { NodeAgent } from './node/node-agent.ts';
import { NodeNetworkSetup, type Held } from './node/node-network.ts';
import { NodeShutdown, ShutdownWatch, shutdownGroups } from './node/node-shutdown.ts';
import { SharedTicks } from './node/shared-ticks.ts';
import { Situation } from './node/situation.ts';
import { Upkeep } from './node/upkeep.ts';
import { PodSource } from './pod-source.ts';
import { StaticPods } from './static/static-pods.ts';
import { podUid } from './pods.ts';
import { Semaphore } from './semaphore.ts';

/** Nodes that register at the same time. */
const registering = 64;
const logLookMs = 10_000;
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
      runtimeFor: (pod) => this.#runtimeFor(pod),
      facts: (pod) => this.#podFacts(pod),
      allocatable: (pod) => this.#agentOf(pod)?.context.allocatable ?? {},
      onDisk: (pod, volume, why) =>
        this.#agentOf(pod)?.context.recorder.event(
          pod,
          'Warning',
          'VolumeOnDisk',
          `emptyDir "${volume.name}" asks for memory and is on disk, because ${why}`,
        ),
      imagesChanged: () => this.#situation?.imagesChanged(),
      devicesChanged: () => {
        this.#situation?.devicesChanged();
        for (const agent of this.agents.values()) void agent.report();
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
  }

  #agentOf(pod: Pod): NodeAgent | undefined {
    return this.agents.get(pod.spec?.nodeName ?? '');
  }

  #agent(name: string, ticks: SharedTicks | undefined): NodeAgent {
    const { config, events } = this.#needs;
    return new NodeAgent(this.context, {
      name,
      labels: config.labels,
      taints: config.taints.map(({ key, value: text, effect }) => ({ key, effect, ...(text !== undefined && { value: text }) })),
      podCIDR: config.podCIDR,
      leasePeriodMs: config.nodeLeaseDurationSeconds * 250,
      leaseDurationSeconds: config.nodeLeaseDurationSeconds,
      ticks,
      statusReportMs: config.nodeStatusReportMs,
      registers: config.registerNode,
      quiet: config.count !== undefined,
      recorder: this.#recorder(events.recorder('kubelet', name)),
      situation: () => {
        if (!this.#situation) throw new Error('the kubelet has not started');
        return this.#situation.current;
      },
      podCIDRs: (cidrs) => {
        void this.#network?.use(cidrs);
      },
    });
  }

  /** Three events for each of ten thousand pods would be most of what the API server has to do. */
  #recorder(recorder: EventRecorder): EventRecorder {
    const { normalEvents, count } = this.config;
    if (normalEvents ?? count === undefined) return recorder;
    return {
      event: (about, type, reason, message, fieldPath) => {
        if (type !== 'Normal') recorder.event(about, type, reason, message, fieldPath);
      },
    };
  }

  async #boot(): Promise<void> {
    const { informers, config } = this.#needs;
    const { signal } = this.context;
    const nodeName = config.count === undefined ? config.nodeName : undefined;
    await this.#openRuntimes();
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
    this.#up = true;
    this.#tick();
    this.#rotateLogs();
    this.#upkeep?.start();
    await this.#watchShutdown();
  }

  async #watchShutdown(): Promise<void> {
    const groups = shutdownGroups(this.config);
    if (groups.length === 0) return;
    const { clock, log, signal } = this.context;
    const { agents } = this;
    const shutdown: NodeShutdown = new NodeShutdown({
      groups,
      clock,
      log,
      signal,
      *pods() {
        for (const agent of agents.values()) yield* agent.pods.workers;
      },
      changed: () => {
        this.#situation?.goesDown(shutdown.active);
        for (const agent of agents.values()) void agent.report();
      },
    });
    this.shutdown = shutdown;
    if (this.config.count !== undefined) return;
    this.#shutdownWatch = new ShutdownWatch(shutdown, log);
    await this.#shutdownWatch.start();
  }

  /** Static pods begin before anything is asked of the API: it may be one of them. */
  async #runStatic(source: PodSource): Promise<void> {
    const { path, url, urlHeaders, everyMs } = this.config.staticPods;
    const [agent] = this.agents.values();
    if ((path === undefined && url === undefined) || agent === undefined || this.config.count !== undefined) return;
    this.#static = new StaticPods({
      context: this.context,
      nodeName: agent.name,
      pods: agent.pods,
      path,
      url,
      urlHeaders,
      everyMs,
      found: (uid) => source.claim(uid),
      node: () => agent.node,
    });
    source.mirrorsTo(this.#static);
    await this.#static.start();
  }

  /** A runtime that is not there yet may come. */
  async #openRuntimes(): Promise<void> {
    const { clock, log, random, signal } = this.context;
    for (const { hub } of this.runtimes) {
      const backoff = new Backoff({ firstMs: 200, longestMs: 5000, jitter: 0.2, random });
      for (let open = false; !open; ) {
        try {
          await hub.open(signal);
          open = true;
        } catch (error) {
          signal.throwIfAborted();
          log[backoff.failures > 2 ? 'warn' : 'debug']({ err: error, runtime: hub.handler }, 'the runtime does not answer; trying again');
          await clock.sleep(backoff.next(), signal);
        }
      }
    }
  }

  #setUpNetwork(ours: readonly Held[]): void {
    const { config, facts } = this.#needs;
    const { network, policy, clock, log, random, signal } = this.context;
    policy?.guard(config.nodeName);
    for (const driver of this.#needs.volumes.values()) driver.begin?.(config.nodeName);
    if (!network) return;
    const setup = new NodeNetworkSetup({
      network,
      nodeName: config.nodeName,
      facts,
      addresses: [this.address],
      clock,
      log,
      random,
      signal,
      held: (call) => (network.traits.namespace === 'node' ? Promise.resolve(ours) : this.#sandboxes(call)),
      ready: () => this.#networkReady(),
    });
    this.#network = setup;
    if (setup.needsNoRange) void setup.use(config.podCIDR === undefined ? [] : [config.podCIDR]);
  }

  /** Every sandbox there is, as the runtimes connect them: other kubelets may share a runtime and its network. */
  async #sandboxes(signal: AbortSignal): Promise<readonly Held[]> {
    const lists = await Promise.all([...this.runtimes].map(({ hub }) => hub.driver.listPodSandbox({}, { signal })));
    return lists.flat().map(({ id }) => ({ containerId: id, ifName: 'eth0' }));
  }

  /** The plugin is set up; the runtime may take a moment to see it. */
  async #networkReady(): Promise<void> {
    const { clock, signal } = this.context;
    const situation = this.#situation;
    if (!situation) return;
    situation.networkDone();
    const backoff = new Backoff({ firstMs: 20, longestMs: 1000, jitter: 0, random: () => 0 });
    for (;;) {
      await situation.refresh();
      if (situation.current.networkReady || signal.aborted) break;
      await clock.sleep(backoff.next(), signal).catch(() => undefined);
    }
    for (const agent of this.agents.values()) {
      agent.pods.wakeAll();
      void agent.report();
    }
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

  #rotateLogs(): void {
    if ([...this.runtimes].every(({ hollow }) => hollow)) return;
    const { clock, log, signal } = this.context;
    const { containerLogMaxSize, containerLogMaxFiles } = this.config;
    this.#rotation = new LogRotation({
      clock,
      log,
      signal,
      everyMs: logLookMs,
      maxSizeBytes: value(parseQuantity(containerLogMaxSize)),
      maxFiles: containerLogMaxFiles,
      logs: () => this.#logs(),
    });
    this.#rotation.start();
  }

  *#logs(): Generator<WrittenLog> {
    for (const agent of this.agents.values()) {
      for (const { record } of agent.pods.workers) {
        const { runtime, state } = record;
        if (runtime && !runtime.hollow)
          for (const { id, logPath } of state.running)
            if (logPath !== '') yield { path: logPath, containerId: id, driver: runtime.hub.driver };
      }
    }
  }

  async #runtimeFor(pod: Pod): Promise<{ readonly runtime: PodRuntime; readonly handler: string }> {
    const { runtimes, defaultRuntime } = this.#parts;
    const name = pod.spec?.runtimeClassName;
    if (name === undefined || name === '') return { runtime: defaultRuntime, handler: '' };
    const informer = this.#needs.informers.of(runtimeClasses);
    await informer.whenSynced(this.context.signal);
    const handler = informer.get(name)?.handler;
    if (handler === undefined) throw new Error(`failed to get sandbox runtime: runtimeclass.node.k8s.io "${name}" not found`);
    const placed = runtimes.get(handler);
    return placed ? { runtime: placed, handler: '' } : { runtime: defaultRuntime, handler };
  }

  #podFacts(pod: Pod): PodFacts {
    const agent = this.#agentOf(pod);
    const hostIPs = agent?.context.addresses ?? [];
    const ips = agent?.pods.get(podUid(pod))?.state.podIPs ?? [];
    return { podIPs: pod.spec?.hostNetwork ? hostIPs : ips, hostIPs, nodeName: pod.spec?.nodeName ?? '' };
  }
}
