import { setMaxListeners } from 'node:events';
import type { Duplex } from 'node:stream';
import type { Lifecycle, PluginContext } from '@oarlock/kernel/plugin';
import {
  type Container,
  type ContainerConfig,
  type ContainerFilter,
  type ContainerStats,
  type ContainerStatus,
  type Image,
  type LinuxResources,
  type PodSandbox,
  type PodSandboxConfig,
  type PodSandboxStatus,
  type RegistryAuth,
  type RuntimeCall,
  type RuntimeCondition,
  type RuntimeDriver,
  RuntimeError,
  type RuntimeEvent,
  type RuntimeFeatures,
  type RuntimeInfo,
  type SandboxFilter,
  type Streams,
} from '@oarlock/spi/runtime';
import { type CgroupDriver, cgroupParentOf, detectCgroupDriver } from './cgroup-driver.ts';
import { recordCniAdd } from './cni-span.ts';
import { CriChannel } from './cri-channel.ts';
import { type CgroupParent, containerConfig, linuxResources, sandboxConfig } from './cri-config.ts';
import { CriImages, type ImageUsage } from './cri-images.ts';
import { CriSessions } from './cri-sessions.ts';
import * as wire from './cri-status.ts';
import { EventHub, type Sighting } from './event-hub.ts';
import { ExecProcesses } from './exec-processes.ts';
import { containerdEvents, criEvents } from './raw-events.ts';
import { isGone, required, unlessGone } from './runtime-errors.ts';

/** Without a tracer nothing is traced. */
export type RuntimeContext = Pick<PluginContext, 'log' | 'clock'> & Partial<Pick<PluginContext, 'tracer'>>;

export interface ContainerdRuntimeConfig {
  readonly socket: string;
  readonly requestTimeoutSeconds: number;
  readonly imagePullTimeoutSeconds: number;
  readonly streamIdleSeconds: number;
}

/** CRI v1 over a socket, as a driver. */
export class ContainerdRuntime implements RuntimeDriver, Lifecycle {
  readonly traits = { invokesCni: true, images: true, survivesRestart: true, networkNamespaces: true };
  readonly #config: ContainerdRuntimeConfig;
  readonly #context: RuntimeContext;
  readonly #channel: CriChannel;
  readonly #hub: EventHub;
  readonly #images: CriImages;
  readonly #sessions: CriSessions;
  /** The sandbox of every container, and every sandbox's own id: neither ever changes. */
  readonly #sandboxes = new Map<string, string>();
  readonly #stopping = new AbortController();
  #running: Promise<void> | undefined;
  #cgroupDriver: Promise<CgroupDriver> | undefined;

  constructor(config: ContainerdRuntimeConfig, context: RuntimeContext) {
    this.#config = config;
    this.#context = context;
    this.#channel = new CriChannel({ socket: config.socket, timeoutMs: config.requestTimeoutSeconds * 1000 });
    this.#hub = new EventHub({
      sources: [(signal) => containerdEvents(this.#channel, context.clock, signal), (signal) => criEvents(this.#channel, signal)],
      clock: context.clock,
      log: context.log,
      refresh: async (signal) => {
        await Promise.all([this.listPodSandbox({}, { signal }), this.listContainers({}, { signal })]);
      },
      sandboxOf: (id, signal) => this.#sandboxOf(id, { signal }),
      look: (id, signal) => this.#look(id, { signal }),
      forget: (id) => {
        this.#sandboxes.delete(id);
      },
    });
    setMaxListeners(0, this.#stopping.signal); // every look that follows an event listens to it
    this.#images = new CriImages(this.#channel, config.imagePullTimeoutSeconds * 1000);
    this.#sessions = new CriSessions(this.#channel, new ExecProcesses(this.#channel, this.#hub, context), config.streamIdleSeconds * 1000);
  }

  /** Waits until the runtime answers, for as long as the start is wanted. */
  async start(signal: AbortSignal): Promise<void> {
    for (let pause = 50; ; pause = Math.min(pause * 2, 1000)) {
      try {
        const { name, version } = await this.version({ signal });
        this.#context.log.info({ runtime: name, version, socket: this.#config.socket }, 'connected to the container runtime');
        break;
      } catch (error) {
        signal.throwIfAborted();
        if (!(error instanceof RuntimeError && error.code === 'Unavailable')) throw error;
      }
      await this.#context.clock.sleep(pause, signal);
    }
    this.#running = this.#hub.run(this.#stopping.signal);
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
    this.#channel.close();
  }

  async version(call?: RuntimeCall): Promise<RuntimeInfo> {
    const { runtimeName, runtimeVersion, runtimeApiVersion } = await this.#channel.cri<{
      runtimeName: string;
      runtimeVersion: string;
      runtimeApiVersion: string;
    }>('Version', {}, call);
    return { name: runtimeName, version: runtimeVersion, apiVersion: runtimeApiVersion };
  }

  async status(call?: RuntimeCall): Promise<readonly RuntimeCondition[]> {
    const { status } = await this.#channel.cri<{ status: { conditions: readonly RuntimeCondition[] } | null }>('Status', {}, call);
    const required = (type: string): type is RuntimeCondition['type'] => type === 'RuntimeReady' || type === 'NetworkReady';
    return (status?.conditions ?? [])
      .filter(({ type }) => required(type))
      .map(({ type, status: holds, reason, message }) => ({ type, status: holds, reason, message }));
  }

  async features(call?: RuntimeCall): Promise<RuntimeFeatures | undefined> {
    const { runtimeHandlers, features } = await this.#channel.cri<wire.WireFeatures>('Status', {}, call);
    return wire.features(runtimeHandlers, features);
  }

  /** Asked once, as the runtime would have to be started anew for another. */
  cgroupDriver(): Promise<CgroupDriver> {
    this.#cgroupDriver ??= detectCgroupDriver(this.#channel).catch((error: unknown) => {
      this.#cgroupDriver = undefined;
      throw error;
    });
    return this.#cgroupDriver;
  }

  async runPodSandbox(config: PodSandboxConfig, handler: string, call?: RuntimeCall): Promise<string> {
    const request = { config: sandboxConfig(config, await this.#parent(config)), runtimeHandler: handler };
    // upstream gives a sandbox twice the time of other calls: it holds the network's set up
    const { podSandboxId } = await this.#channel.cri<{ podSandboxId: string }>(
      'RunPodSandbox',
      request,
      call,
      this.#config.requestTimeoutSeconds * 2_000,
    );
    this.#sandboxes.set(podSandboxId, podSandboxId);
    this.#tell('STARTED', podSandboxId);
    if (this.#context.tracer !== undefined) await recordCniAdd(this.#context.tracer, call?.cause, podSandboxId);
    return podSandboxId;
  }

  async stopPodSandbox(id: string, call?: RuntimeCall): Promise<void> {
    await unlessGone(this.#channel.cri('StopPodSandbox', { podSandboxId: id }, call));
  }

  async removePodSandbox(id: string, call?: RuntimeCall): Promise<void> {
    await this.#hub.during(id, () => unlessGone(this.#channel.cri('RemovePodSandbox', { podSandboxId: id }, call)));
    this.#tell('DELETED', id);
  }

  async podSandboxStatus(id: string, call?: RuntimeCall): Promise<PodSandboxStatus> {
    const { status } = await this.#channel.cri<{ status: wire.WireSandboxStatus | null }>('PodSandboxStatus', { podSandboxId: id }, call);
    return wire.sandboxStatus(required(status, 'PodSandboxStatus'));
  }

  async listPodSandbox(filter: SandboxFilter = {}, call?: RuntimeCall): Promise<readonly PodSandbox[]> {
    const { items } = await this.#channel.cri<{ items: readonly wire.WireSandbox[] }>(
      'ListPodSandbox',
      { filter: wire.sandboxFilter(filter) },
      call,
    );
    for (const { id } of items) this.#sandboxes.set(id, id);
    return items.map(wire.sandbox);
  }

  async createContainer(sandboxId: string, config: ContainerConfig, sandbox: PodSandboxConfig, call?: RuntimeCall): Promise<string> {
    const request = {
      podSandboxId: sandboxId,
      config: containerConfig(config),
      sandboxConfig: sandboxConfig(sandbox, await this.#parent(sandbox)),
    };
    const { containerId } = await this.#channel.cri<{ containerId: string }>('CreateContainer', request, call);
    this.#sandboxes.set(containerId, sandboxId);
    this.#tell('CREATED', containerId);
    return containerId;
  }

  async startContainer(id: string, call?: RuntimeCall): Promise<void> {
    await this.#hub.during(id, () => this.#channel.cri('StartContainer', { containerId: id }, call));
    await this.#sandboxOf(id, call);
    this.#tell('STARTED', id);
  }

  async stopContainer(id: string, timeoutSeconds: number, call?: RuntimeCall): Promise<void> {
    const timeout = Math.max(0, Math.ceil(timeoutSeconds));
    await this.#hub.during(id, () =>
      unlessGone(
        this.#channel.cri('StopContainer', { containerId: id, timeout }, call, (timeout + this.#config.requestTimeoutSeconds) * 1000),
      ),
    );
  }

  async removeContainer(id: string, call?: RuntimeCall): Promise<void> {
    await this.#hub.during(id, () => unlessGone(this.#channel.cri('RemoveContainer', { containerId: id }, call)));
    this.#tell('DELETED', id);
  }

  async containerStatus(id: string, call?: RuntimeCall): Promise<ContainerStatus> {
    const { status } = await this.#channel.cri<{ status: wire.WireContainerStatus | null }>('ContainerStatus', { containerId: id }, call);
    const found = required(status, 'ContainerStatus');
    return wire.containerStatus(found, (await this.#sandboxOf(found.id, call)) ?? '');
  }

  async listContainers(filter: ContainerFilter = {}, call?: RuntimeCall): Promise<readonly Container[]> {
    const { containers } = await this.#channel.cri<{ containers: readonly wire.WireContainer[] }>(
      'ListContainers',
      { filter: wire.containerFilter(filter) },
      call,
    );
    for (const { id, podSandboxId } of containers) this.#sandboxes.set(id, podSandboxId);
    return containers.map(wire.container);
  }

  async updateContainerResources(id: string, resources: LinuxResources, call?: RuntimeCall): Promise<void> {
    await this.#channel.cri('UpdateContainerResources', { containerId: id, linux: linuxResources(resources) }, call);
  }

  async reopenContainerLog(id: string, call?: RuntimeCall): Promise<void> {
    await this.#channel.cri('ReopenContainerLog', { containerId: id }, call);
  }

  execSync(
    id: string,
    command: readonly string[],
    timeoutSeconds: number,
    call?: RuntimeCall,
  ): Promise<{ readonly stdout: Buffer; readonly stderr: Buffer; readonly exitCode: number }> {
    return this.#sessions.execSync(id, command, timeoutSeconds, call);
  }
  exec(id: string, command: readonly string[], streams: Streams, call?: RuntimeCall): Promise<number> {
    return this.#sessions.exec(id, command, streams, call);
  }
  attach(id: string, streams: Streams, call?: RuntimeCall): Promise<void> {
    return this.#sessions.attach(id, streams, call);
  }
  portForward(sandboxId: string, port: number, call?: RuntimeCall): Promise<Duplex> {
    return this.#sessions.portForward(sandboxId, port, call);
  }

  async containerStats(id: string, call?: RuntimeCall): Promise<ContainerStats> {
    const { stats } = await this.#channel.cri<{ stats: wire.WireContainerStats | null }>('ContainerStats', { containerId: id }, call);
    return wire.containerStats(required(stats, 'ContainerStats'));
  }

  async listContainerStats({ id, sandboxId, labels, state }: ContainerFilter = {}, call?: RuntimeCall): Promise<readonly ContainerStats[]> {
    const filter = wire.containerFilter({
      ...(id !== undefined && { id }),
      ...(sandboxId !== undefined && { sandboxId }),
      ...(labels && { labels }),
    });
    const { stats } = await this.#channel.cri<{ stats: readonly wire.WireContainerStats[] }>('ListContainerStats', { filter }, call);
    if (!state) return stats.map(wire.containerStats);
    const wanted = new Set((await this.listContainers({ state }, call)).map((one) => one.id));
    return stats.filter((one) => wanted.has(one.attributes.id)).map(wire.containerStats);
  }

  events(signal: AbortSignal): AsyncIterable<RuntimeEvent | 'resync'> {
    return this.#hub.listen(signal);
  }

  listImages(call?: RuntimeCall): Promise<readonly Image[]> {
    return this.#images.list(call);
  }
  imageStatus(image: string, call?: RuntimeCall): Promise<Image | undefined> {
    return this.#images.status(image, call);
  }
  async pullImage(
    image: string,
    auth: RegistryAuth | undefined,
    sandbox: PodSandboxConfig | undefined,
    call?: RuntimeCall,
  ): Promise<string> {
    return this.#images.pull(image, auth, sandbox && sandboxConfig(sandbox, await this.#parent(sandbox)), call);
  }
  removeImage(image: string, call?: RuntimeCall): Promise<void> {
    return this.#images.remove(image, call);
  }
  imageFsInfo(call?: RuntimeCall): Promise<ImageUsage> {
    return this.#images.usage(call);
  }

  async #parent(config: PodSandboxConfig): Promise<CgroupParent> {
    return config.linux.cgroupParent === undefined ? (path) => path : cgroupParentOf(await this.cgroupDriver());
  }

  async #sandboxOf(id: string, call?: RuntimeCall): Promise<string | undefined> {
    const known = this.#sandboxes.get(id);
    if (known !== undefined) return known;
    await this.listContainers({ id }, call);
    if (!this.#sandboxes.has(id)) await this.listPodSandbox({ id }, call);
    return this.#sandboxes.get(id);
  }

  async #look(id: string, call: RuntimeCall): Promise<Sighting> {
    try {
      if (this.#sandboxes.get(id) === id) return (await this.podSandboxStatus(id, call)).state === 'READY' ? 'running' : 'stopped';
      const { state, reason } = await this.containerStatus(id, call);
      if (state === 'CREATED') return 'created';
      if (state === 'RUNNING') return 'running';
      return reason === 'OOMKilled' ? 'outOfMemory' : 'stopped';
    } catch (error) {
      if (isGone(error)) return 'gone';
      throw error;
    }
  }

  #tell(type: RuntimeEvent['type'], id: string): void {
    const sandboxId = this.#sandboxes.get(id);
    // it was gone before, and that was told then
    if (sandboxId === undefined) return;
    if (type === 'DELETED') this.#sandboxes.delete(id);
    this.#hub.emit({ type, sandboxId, at: this.#context.clock.now(), ...(id !== sandboxId && { containerId: id }) });
  }
}
