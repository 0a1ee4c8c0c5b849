import { mkdir } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { nodes, pods, runtimeClasses, services } from '@oarlock/api/resources';
import type { Pod } from '@oarlock/api/types/core-v1';
import { Backoff } from '@oarlock/client/backoff';
import { eventLoop } from '@oarlock/client/event-loop';
import type { PluginContext } from '@oarlock/kernel/plugin';
import type { Client, EventSource, Informers } from '@oarlock/spi/client';
import type { ClusterFacts, ClusterKeys } from '@oarlock/spi/cluster';
import type { NetworkDriver } from '@oarlock/spi/network';
import type { Health } from '@oarlock/spi/role';
import type { RuntimeDriver } from '@oarlock/spi/runtime';
import type { VolumeDriver } from '@oarlock/spi/volume';
import { Deadlines } from './deadlines.ts';
import { ImageManager } from './images.ts';
import type { KubeletConfig } from './kubelet-config.ts';
import { names, ownerId } from './labels.ts';
import type { KubeletContext, PodRuntime } from './node-context.ts';
import { NodePaths } from './node-paths.ts';
import { defaultAddress, readMachine } from './node/machine.ts';
import { NodeAgent } from './node/node-agent.ts';
import { NodeNetworkSetup } from './node/node-network.ts';
import type { FoundPod } from './node/node-pods.ts';
import { Situation } from './node/situation.ts';
import { ObjectCache } from './object-cache.ts';
import { attachmentOf } from './pod-sandbox.ts';
import { podUid } from './pods.ts';
import { RuntimeHub } from './runtime-hub.ts';
import { Semaphore } from './semaphore.ts';
import { ServiceEnvironment } from './service-environment.ts';
import { StatusManager } from './status-manager.ts';
import { TurnQueue } from './turn-queue.ts';
import { builtinDrivers } from './volumes/builtin-drivers.ts';
import { ServiceAccountTokens } from './volumes/service-account-tokens.ts';
import { VolumeManager } from './volumes/volume-manager.ts';

export interface KubeletNeeds {
  readonly client: Client;
  readonly informers: Informers;
  readonly events: EventSource;
  readonly runtimes: ReadonlyMap<string, RuntimeDriver>;
  readonly network: NetworkDriver | undefined;
  readonly volumes: ReadonlyMap<string, VolumeDriver>;
  readonly facts: ClusterFacts;
  readonly keys: ClusterKeys;
  readonly config: KubeletConfig;
}
export type KubeletEnvironment = Pick<PluginContext, 'clock' | 'log' | 'tracer' | 'signal' | 'dataDir'> & { readonly random?: () => number };

/** Nodes that register at the same time. */
const registering = 64;
const isLoopback = (host: string) => host === 'localhost' || host === '::1' || host.startsWith('127.');

/** The kubelet of this process: one node, or many on a simulated runtime. */
export class Kubelet {
  readonly agents: ReadonlyMap<string, NodeAgent>;
  readonly context: KubeletContext;
  readonly config: KubeletConfig;
  readonly keys: ClusterKeys;
  readonly address: string;
  readonly #needs: KubeletNeeds;
  readonly #environment: KubeletEnvironment;
  readonly #runtimes: ReadonlyMap<string, PodRuntime>;
  readonly #default: PodRuntime;
  readonly #owners = new Map<string, NodeAgent>();
  readonly #stop = new AbortController();
  #situation: Situation | undefined;
  #network: NodeNetworkSetup | undefined;
  #booted: Promise<void> | undefined;
  #up = false;

  /** Wires; no I/O. @throws Error for a config that the runtimes cannot fulfil */
  constructor(needs: KubeletNeeds, environment: KubeletEnvironment) {
    this.#needs = needs;
    this.#environment = environment;
    const { config, runtimes, facts, client } = needs;
    const { clock, log, tracer, dataDir, random = Math.random } = environment;
    this.config = config;
    this.keys = needs.keys;
    const signal = AbortSignal.any([environment.signal, this.#stop.signal]);
    const nodeNames_ = nodeNames(config);
    const rootDir = config.rootDir ?? dataDir;
    const server = new URL(facts.serverUrl).hostname.replace(/^\[|\]$/g, '');
    this.address = config.address ?? (isLoopback(server) ? '127.0.0.1' : defaultAddress());
    const owners = new Set(nodeNames_.map((name) => ownerId(facts.name, name, rootDir)));
    const objects = new ObjectCache({ client, clock, random, log });
    this.#runtimes = new Map([...runtimes].map(([name, driver]): [string, PodRuntime] => {
      const hub = new RuntimeHub(name, driver, { clock, log, relistMs: config.syncFrequencyMs, owners });
      const images = new ImageManager(driver, { objects, clock, tracer, parallel: config.maxParallelImagePulls, pulled: () => this.#situation?.imagesChanged() });
      return [name, { hub, images, hollow: !(config.files ?? !hub.simulated) }];
    }));
    const first = config.runtime === undefined ? [...this.#runtimes.values()][0] : this.#runtimes.get(config.runtime);
    if (!first) throw new Error(config.runtime === undefined ? 'the kubelet needs a runtime, and none is placed' : `there is no runtime named ${config.runtime}; there are: ${[...runtimes.keys()].join(', ')}`);
    this.#default = first;
    if (config.count !== undefined && ![...this.#runtimes.values()].every(({ hub }) => hub.simulated)) throw new Error('count needs a runtime that is simulated: several nodes of one machine take a process each');
    const paths = new NodePaths(rootDir, config.logDir ?? join(rootDir, 'logs'), config.volatileDir ?? rootDir);
    const tokens = new ServiceAccountTokens(client, clock);
    const network = first.hub.simulated ? undefined : needs.network;
    const drivers = new Map([...needs.volumes, ...builtinDrivers(
      { objects, tokens, clock, facts: (pod) => this.#podFacts(pod), allocatable: (pod) => this.agentOf(pod)?.context.allocatable ?? {} },
      { onDisk: (pod, volume, why) => this.agentOf(pod)?.context.recorder.event(pod, 'Warning', 'VolumeOnDisk', `emptyDir "${volume.name}" asks for memory and is on disk, because ${why}`) },
    )]);
    const turns = new TurnQueue();
    this.context = {
      clock, log, tracer, random, client, facts, paths, objects, tokens, turns, network, signal, deadlines: new Deadlines(clock),
      services: new ServiceEnvironment(needs.informers.of(services), facts), statuses: new StatusManager({ client, clock, random, log, tracer }),
      volumes: new VolumeManager({ drivers, client, paths }), hostname: hostname(), cgroupRoot: config.cgroupRoot, resolvConf: config.resolvConf,
      runtimeFor: (pod) => this.#runtimeFor(pod),
    };
    this.agents = new Map(nodeNames_.map((name) => [name, this.#agent(name)]));
    for (const agent of this.agents.values()) this.#owners.set(agent.owner, agent);
  }

  get runtimes(): Iterable<PodRuntime> { return this.#runtimes.values(); }
  agentOf(pod: Pod): NodeAgent | undefined { return this.agents.get(pod.spec?.nodeName ?? ''); }

  /** Begins; `port` is where the kubelet's API listens. Resolves at once: what has to be waited for is waited for in the background. */
  async start(port: number): Promise<void> {
    const { paths } = this.context;
    await mkdir(paths.pods, { recursive: true, mode: 0o750 });
    await mkdir(paths.logs, { recursive: true, mode: 0o755 });
    const { config, facts } = this.#needs;
    const { clock, log, signal, network } = this.context;
    this.#situation = new Situation({
      config, kubeletVersion: facts.version, machine: await readMachine(paths.root), addresses: [this.address], port, rootDir: paths.root, hub: this.#default.hub, network, clock, log, signal,
    });
    this.#booted = this.#boot();
    // asked for by `ready`, and told there
    this.#booted.catch((error: unknown) => { if (!signal.aborted) log.error({ err: error }, 'the kubelet could not begin'); });
  }

  /** All nodes are registered and their pods are looked after. */
  async ready(): Promise<void> { await this.#booted; }

  health(): Health {
    const problems = this.#situation?.current.problems ?? ['not started'];
    return this.#up && problems.length === 0 ? { healthy: true } : { healthy: false, because: problems[0] ?? 'the node is not registered yet' };
  }

  /** Leaves the pods running. */
  async stop(): Promise<void> {
    this.#stop.abort(new Error('the kubelet stops'));
    for (const agent of this.agents.values()) agent.stop();
    for (const { hub } of this.#runtimes.values()) hub.close();
    this.context.statuses.stop();
    this.context.deadlines.close();
    this.context.objects.close();
    await this.#booted?.catch(() => undefined);
  }

  #agent(name: string): NodeAgent {
    const { config, events, informers: _ } = this.#needs;
    return new NodeAgent(this.context, {
      name, labels: config.labels, taints: config.taints.map(({ key, value, effect }) => ({ key, effect, ...(value !== undefined && { value }) })), podCIDR: config.podCIDR,
      leasePeriodMs: config.nodeLeaseDurationSeconds * 250, leaseDurationSeconds: config.nodeLeaseDurationSeconds, statusReportMs: config.nodeStatusReportMs,
      registers: config.registerNode, quiet: config.count !== undefined, recorder: events.recorder('kubelet', name),
      situation: () => {
        if (!this.#situation) throw new Error('the kubelet has not started');
        return this.#situation.current;
      },
      podCIDRs: (cidrs) => { void this.#network?.use(cidrs); },
    });
  }

  async #boot(): Promise<void> {
    const { informers, config } = this.#needs;
    const { signal } = this.context;
    await this.#openRuntimes();
    const found = await this.#found();
    this.#setUpNetwork(found);
    await this.#situation?.refresh();
    const nodeInformer = informers.of(nodes, config.count === undefined ? { fieldSelector: `metadata.name=${config.nodeName}` } : {});
    nodeInformer.on({ added: (node) => this.agents.get(node.metadata?.name ?? '')?.observed(node), updated: (node) => this.agents.get(node.metadata?.name ?? '')?.observed(node) });
    const registered = this.#register();
    await this.#followPods(found);
    await registered;
    signal.throwIfAborted();
    this.#up = true;
    this.#tick();
  }

  /** A runtime that is not there yet may come. */
  async #openRuntimes(): Promise<void> {
    const { clock, log, random, signal } = this.context;
    for (const { hub } of this.#runtimes.values()) {
      const backoff = new Backoff({ firstMs: 200, longestMs: 5000, jitter: 0.2, random });
      for (;;) {
        try {
          await hub.open(signal);
          break;
        } catch (error) {
          signal.throwIfAborted();
          log[backoff.failures > 2 ? 'warn' : 'debug']({ err: error, runtime: hub.handler }, 'the runtime does not answer; trying again');
          await clock.sleep(backoff.next(), signal);
        }
      }
    }
  }

  /** What the runtimes have of our nodes' pods, by uid. */
  async #found(): Promise<Map<string, FoundPod & { readonly owner: string }>> {
    const all = new Map<string, FoundPod & { readonly owner: string }>();
    for (const runtime of this.#runtimes.values()) {
      for (const [owner, byUid] of await runtime.hub.found(this.context.signal)) for (const [uid, found] of byUid) all.set(uid, { runtime, found, owner });
    }
    return all;
  }

  #setUpNetwork(found: ReadonlyMap<string, FoundPod>): void {
    const { config, facts } = this.#needs;
    const { network, clock, log, random, signal } = this.context;
    if (!network) return;
    const setup = new NodeNetworkSetup({ network, nodeName: config.nodeName, facts, addresses: [this.address], clock, log, random, signal, ready: () => this.#networkReady() });
    this.#network = setup;
    if (setup.needsNoRange) {
      const held = [...found].flatMap(([uid, { found: { sandboxes } }]) => sandboxes.filter(({ state, annotations }) => state === 'READY' && annotations[names.podIPs] !== undefined)
        .map(({ metadata: { namespace, name, attempt } }) => attachmentOf({ uid, namespace, name, pod: {} }, attempt)));
      void setup.use(config.podCIDR === undefined ? [] : [config.podCIDR]).then(() => setup.collect(held));
    }
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
    const { signal } = this.context;
    await Promise.all([...this.agents.values()].map((agent) => gate.run(signal, () => agent.start())));
  }

  async #followPods(found: Map<string, FoundPod & { readonly owner: string }>): Promise<void> {
    const { informers, config } = this.#needs;
    const { signal, services: environment } = this.context;
    const serviceInformer = informers.of(services);
    await serviceInformer.whenSynced(signal);
    serviceInformer.on({ added: (service) => environment.changed(service), updated: (service) => environment.changed(service), deleted: (service) => environment.changed(service) });
    // with many nodes one watch of all pods costs less than one for each
    const informer = informers.of(pods, config.count === undefined ? { fieldSelector: `spec.nodeName=${config.nodeName}` } : {});
    informer.on({
      added: (pod, cause) => {
        const agent = this.agentOf(pod);
        if (!agent) return;
        const uid = podUid(pod);
        const known = found.get(uid);
        found.delete(uid);
        agent.pods.added(pod, cause, known);
      },
      updated: (pod, _old, cause) => this.agentOf(pod)?.pods.updated(pod, cause),
      deleted: (pod, cause) => this.agentOf(pod)?.pods.deleted(pod, cause),
    });
    await informer.whenSynced(signal);
    for (const [uid, pod] of found) this.#owners.get(pod.owner)?.pods.orphan(uid, pod);
    found.clear();
    await this.#sweepFiles();
  }

  /** Directories of pods that nobody knows any more. */
  async #sweepFiles(): Promise<void> {
    const { volumes, signal, log } = this.context;
    for (const uid of await volumes.leftovers()) {
      if ([...this.agents.values()].some((agent) => agent.pods.get(uid) !== undefined)) continue;
      await volumes.teardown(uid, { signal, cause: undefined }).catch((error: unknown) => log.warn({ err: error, uid }, 'what a pod left on the disk could not be removed'));
    }
  }

  #tick(): void {
    const { clock, signal, log } = this.context;
    clock.after(this.config.nodeStatusUpdateMs, () => {
      if (signal.aborted) return;
      void this.#look().catch((error: unknown) => { if (!signal.aborted) log.warn({ err: error }, 'the node\'s state could not be looked at'); }).finally(() => { if (!signal.aborted) this.#tick(); });
    });
  }

  async #look(): Promise<void> {
    const wasReady = this.#situation?.current.networkReady;
    await this.#situation?.refresh();
    const cameBack = wasReady === false && this.#situation?.current.networkReady === true;
    for (const agent of this.agents.values()) {
      if (cameBack) agent.pods.wakeAll();
      void agent.report();
      while (eventLoop.held) await eventLoop.turn();
    }
  }

  async #runtimeFor(pod: Pod): Promise<{ readonly runtime: PodRuntime; readonly handler: string }> {
    const name = pod.spec?.runtimeClassName;
    if (name === undefined || name === '') return { runtime: this.#default, handler: '' };
    const informer = this.#needs.informers.of(runtimeClasses);
    await informer.whenSynced(this.context.signal);
    const handler = informer.get(name)?.handler;
    if (handler === undefined) throw new Error(`failed to get sandbox runtime: runtimeclass.node.k8s.io "${name}" not found`);
    const placed = this.#runtimes.get(handler);
    return placed ? { runtime: placed, handler: '' } : { runtime: this.#default, handler };
  }

  #podFacts(pod: Pod) {
    const agent = this.agentOf(pod);
    const hostIPs = agent?.context.addresses ?? [];
    const ips = agent?.pods.get(podUid(pod))?.state.podIPs ?? [];
    return { podIPs: pod.spec?.hostNetwork ? hostIPs : ips, hostIPs, nodeName: pod.spec?.nodeName ?? '' };
  }
}

function nodeNames({ nodeName, count }: KubeletConfig): readonly string[] {
  return count === undefined ? [nodeName] : Array.from({ length: count }, (_, index) => `${nodeName}-${index}`);
}
