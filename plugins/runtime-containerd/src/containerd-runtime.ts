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
  type RuntimeCallOptions,
  type RuntimeCondition,
  type RuntimeDriver,
  RuntimeError,
  type RuntimeEvent,
  type RuntimeFeatures,
  type RuntimeInfo,
  type SandboxFilter,
  type Streams,
} from '@oarlock/spi/runtime';
import { type CgroupDriver, cgroupParentOf, detectCgroupDriver } from './cri/cgroup-driver.ts';
import { traceCniAdd } from './cni-trace.ts';
import { CriClient } from './cri/cri-client.ts';
import { type CgroupParent, containerConfig, linuxResources, sandboxConfig } from './cri/config-encoding.ts';
import { CriImageService, type ImageUsage } from './cri/image-service.ts';
import { StreamingClient } from './streaming/streaming-client.ts';
import * as wire from './cri/status-decoding.ts';
import { EventBroadcaster, type ObservedState } from './events/event-broadcaster.ts';
import { ExecProcesses } from './streaming/exec-processes.ts';
import { containerdEvents, criEvents } from './events/event-sources.ts';
import { isNotFound, required, ignoreNotFound } from './cri/runtime-errors.ts';

/** The context of the runtime. No spans are created without a tracer. */
export type RuntimeContext = Pick<PluginContext, 'log' | 'clock'> & Partial<Pick<PluginContext, 'tracer'>>;

export interface ContainerdRuntimeConfig {
  readonly socket: string;
  readonly requestTimeoutSeconds: number;
  readonly imagePullTimeoutSeconds: number;
  readonly streamIdleSeconds: number;
}

/** A RuntimeDriver for runtimes that serve CRI v1 on a Unix socket. */
export class ContainerdRuntime implements RuntimeDriver, Lifecycle {
  readonly traits = { invokesCni: true, images: true, survivesRestart: true, networkNamespaces: true };
  readonly #config: ContainerdRuntimeConfig;
  readonly #context: RuntimeContext;
  readonly #client: CriClient;
  readonly #events: EventBroadcaster;
  readonly #images: CriImageService;
  readonly #streaming: StreamingClient;
  /** The sandbox id of each container and of each sandbox (its own id). These ids never change. */
  readonly #sandboxes = new Map<string, string>();
  readonly #stopping = new AbortController();
  #running: Promise<void> | undefined;
  #cgroupDriver: Promise<CgroupDriver> | undefined;

  constructor(config: ContainerdRuntimeConfig, context: RuntimeContext) {
    this.#config = config;
    this.#context = context;
    this.#client = new CriClient({ socket: config.socket, timeoutMs: config.requestTimeoutSeconds * 1000 });
    this.#events = new EventBroadcaster({
      sources: [(signal) => containerdEvents(this.#client, context.clock, signal), (signal) => criEvents(this.#client, signal)],
      clock: context.clock,
      log: context.log,
      refresh: async (signal) => {
        await Promise.all([this.listPodSandbox({}, { signal }), this.listContainers({}, { signal })]);
      },
      sandboxOf: (id, signal) => this.#sandboxOf(id, { signal }),
      observe: (id, signal) => this.#observe(id, { signal }),
      forget: (id) => {
        this.#sandboxes.delete(id);
      },
    });
    setMaxListeners(0, this.#stopping.signal); // each observation after an event adds a listener
    this.#images = new CriImageService(this.#client, config.imagePullTimeoutSeconds * 1000);
    this.#streaming = new StreamingClient(
      this.#client,
      new ExecProcesses(this.#client, this.#events, context),
      config.streamIdleSeconds * 1000,
    );
  }

  /** Connects to the runtime. Resolves when the runtime answers or the signal aborts. */
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
    this.#running = this.#events.run(this.#stopping.signal);
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
    this.#client.close();
  }

  async version(call?: RuntimeCallOptions): Promise<RuntimeInfo> {
    const { runtimeName, runtimeVersion, runtimeApiVersion } = await this.#client.cri<{
      runtimeName: string;
      runtimeVersion: string;
      runtimeApiVersion: string;
    }>('Version', {}, call);
    return { name: runtimeName, version: runtimeVersion, apiVersion: runtimeApiVersion };
  }

  async status(call?: RuntimeCallOptions): Promise<readonly RuntimeCondition[]> {
    const { status } = await this.#client.cri<{ status: { conditions: readonly RuntimeCondition[] } | null }>('Status', {}, call);
    const isRequired = (type: string): type is RuntimeCondition['type'] => type === 'RuntimeReady' || type === 'NetworkReady';
    return (status?.conditions ?? [])
      .filter(({ type }) => isRequired(type))
      .map(({ type, status: holds, reason, message }) => ({ type, status: holds, reason, message }));
  }

  async features(call?: RuntimeCallOptions): Promise<RuntimeFeatures | undefined> {
    const { runtimeHandlers, features } = await this.#client.cri<wire.WireFeatures>('Status', {}, call);
    return wire.features(runtimeHandlers, features);
  }

  /** Returns the runtime's cgroup driver. It is read only once, because the runtime must restart to change it. */
  cgroupDriver(): Promise<CgroupDriver> {
    this.#cgroupDriver ??= detectCgroupDriver(this.#client).catch((error: unknown) => {
      this.#cgroupDriver = undefined;
      throw error;
    });
    return this.#cgroupDriver;
  }

  async runPodSandbox(config: PodSandboxConfig, handler: string, call?: RuntimeCallOptions): Promise<string> {
    const request = { config: sandboxConfig(config, await this.#cgroupParent(config)), runtimeHandler: handler };
    // upstream gives RunPodSandbox twice the timeout of other calls, because it includes the network setup
    const { podSandboxId } = await this.#client.cri<{ podSandboxId: string }>(
      'RunPodSandbox',
      request,
      call,
      this.#config.requestTimeoutSeconds * 2_000,
    );
    this.#sandboxes.set(podSandboxId, podSandboxId);
    this.#emit('STARTED', podSandboxId);
    if (this.#context.tracer !== undefined)
      await traceCniAdd(this.#context.tracer, { spanContext: call?.spanContext, sandboxId: podSandboxId });
    return podSandboxId;
  }

  async stopPodSandbox(id: string, call?: RuntimeCallOptions): Promise<void> {
    await ignoreNotFound(this.#client.cri('StopPodSandbox', { podSandboxId: id }, call));
  }

  async removePodSandbox(id: string, call?: RuntimeCallOptions): Promise<void> {
    await this.#events.suppressDuring(id, () => ignoreNotFound(this.#client.cri('RemovePodSandbox', { podSandboxId: id }, call)));
    this.#emit('DELETED', id);
  }

  async podSandboxStatus(id: string, call?: RuntimeCallOptions): Promise<PodSandboxStatus> {
    const { status } = await this.#client.cri<{ status: wire.WireSandboxStatus | null }>('PodSandboxStatus', { podSandboxId: id }, call);
    return wire.sandboxStatus(required(status, 'PodSandboxStatus'));
  }

  async listPodSandbox(filter: SandboxFilter = {}, call?: RuntimeCallOptions): Promise<readonly PodSandbox[]> {
    const { items } = await this.#client.cri<{ items: readonly wire.WireSandbox[] }>(
      'ListPodSandbox',
      { filter: wire.sandboxFilter(filter) },
      call,
    );
    for (const { id } of items) this.#sandboxes.set(id, id);
    return items.map(wire.sandbox);
  }

  async createContainer(sandboxId: string, config: ContainerConfig, sandbox: PodSandboxConfig, call?: RuntimeCallOptions): Promise<string> {
    const request = {
      podSandboxId: sandboxId,
      config: containerConfig(config),
      sandboxConfig: sandboxConfig(sandbox, await this.#cgroupParent(sandbox)),
    };
    const { containerId } = await this.#client.cri<{ containerId: string }>('CreateContainer', request, call);
    this.#sandboxes.set(containerId, sandboxId);
    this.#emit('CREATED', containerId);
    return containerId;
  }

  async startContainer(id: string, call?: RuntimeCallOptions): Promise<void> {
    await this.#events.suppressDuring(id, () => this.#client.cri('StartContainer', { containerId: id }, call));
    await this.#sandboxOf(id, call);
    this.#emit('STARTED', id);
  }

  async stopContainer(id: string, timeoutSeconds: number, call?: RuntimeCallOptions): Promise<void> {
    const timeout = Math.max(0, Math.ceil(timeoutSeconds));
    await this.#events.suppressDuring(id, () =>
      ignoreNotFound(
        this.#client.cri('StopContainer', { containerId: id, timeout }, call, (timeout + this.#config.requestTimeoutSeconds) * 1000),
      ),
    );
  }

  async removeContainer(id: string, call?: RuntimeCallOptions): Promise<void> {
    await this.#events.suppressDuring(id, () => ignoreNotFound(this.#client.cri('RemoveContainer', { containerId: id }, call)));
    this.#emit('DELETED', id);
  }

  async containerStatus(id: string, call?: RuntimeCallOptions): Promise<ContainerStatus> {
    const { status } = await this.#client.cri<{ status: wire.WireContainerStatus | null }>('ContainerStatus', { containerId: id }, call);
    const found = required(status, 'ContainerStatus');
    return wire.containerStatus(found, (await this.#sandboxOf(found.id, call)) ?? '');
  }

  async listContainers(filter: ContainerFilter = {}, call?: RuntimeCallOptions): Promise<readonly Container[]> {
    const { containers } = await this.#client.cri<{ containers: readonly wire.WireContainer[] }>(
      'ListContainers',
      { filter: wire.containerFilter(filter) },
      call,
    );
    for (const { id, podSandboxId } of containers) this.#sandboxes.set(id, podSandboxId);
    return containers.map(wire.container);
  }

  async updateContainerResources(id: string, resources: LinuxResources, call?: RuntimeCallOptions): Promise<void> {
    await this.#client.cri('UpdateContainerResources', { containerId: id, linux: linuxResources(resources) }, call);
  }

  async reopenContainerLog(id: string, call?: RuntimeCallOptions): Promise<void> {
    await this.#client.cri('ReopenContainerLog', { containerId: id }, call);
  }

  execSync(
    id: string,
    command: readonly string[],
    timeoutSeconds: number,
    call?: RuntimeCallOptions,
  ): Promise<{ readonly stdout: Buffer; readonly stderr: Buffer; readonly exitCode: number }> {
    return this.#streaming.execSync(id, { command, timeoutSeconds }, call);
  }
  exec(id: string, command: readonly string[], streams: Streams, call?: RuntimeCallOptions): Promise<number> {
    return this.#streaming.exec(id, { command, streams }, call);
  }
  attach(id: string, streams: Streams, call?: RuntimeCallOptions): Promise<void> {
    return this.#streaming.attach(id, streams, call);
  }
  portForward(sandboxId: string, port: number, call?: RuntimeCallOptions): Promise<Duplex> {
    return this.#streaming.portForward(sandboxId, port, call);
  }

  async containerStats(id: string, call?: RuntimeCallOptions): Promise<ContainerStats> {
    const { stats } = await this.#client.cri<{ stats: wire.WireContainerStats | null }>('ContainerStats', { containerId: id }, call);
    return wire.containerStats(required(stats, 'ContainerStats'));
  }

  async listContainerStats(
    { id, sandboxId, labels, state }: ContainerFilter = {},
    call?: RuntimeCallOptions,
  ): Promise<readonly ContainerStats[]> {
    const filter = wire.containerFilter({
      ...(id !== undefined && { id }),
      ...(sandboxId !== undefined && { sandboxId }),
      ...(labels && { labels }),
    });
    const { stats } = await this.#client.cri<{ stats: readonly wire.WireContainerStats[] }>('ListContainerStats', { filter }, call);
    if (!state) return stats.map(wire.containerStats);
    const ids = new Set((await this.listContainers({ state }, call)).map((container) => container.id));
    return stats.filter(({ attributes }) => ids.has(attributes.id)).map(wire.containerStats);
  }

  events(signal: AbortSignal): AsyncIterable<RuntimeEvent | 'resync'> {
    return this.#events.listen(signal);
  }

  listImages(call?: RuntimeCallOptions): Promise<readonly Image[]> {
    return this.#images.list(call);
  }
  imageStatus(image: string, call?: RuntimeCallOptions): Promise<Image | undefined> {
    return this.#images.status(image, call);
  }
  async pullImage(
    image: string,
    auth: RegistryAuth | undefined,
    sandbox: PodSandboxConfig | undefined,
    call?: RuntimeCallOptions,
  ): Promise<string> {
    return this.#images.pull(image, { auth, sandboxConfig: sandbox && sandboxConfig(sandbox, await this.#cgroupParent(sandbox)) }, call);
  }
  removeImage(image: string, call?: RuntimeCallOptions): Promise<void> {
    return this.#images.remove(image, call);
  }
  imageFsInfo(call?: RuntimeCallOptions): Promise<ImageUsage> {
    return this.#images.usage(call);
  }

  async #cgroupParent(config: PodSandboxConfig): Promise<CgroupParent> {
    return config.linux.cgroupParent === undefined ? (path) => path : cgroupParentOf(await this.cgroupDriver());
  }

  async #sandboxOf(id: string, call?: RuntimeCallOptions): Promise<string | undefined> {
    const known = this.#sandboxes.get(id);
    if (known !== undefined) return known;
    await this.listContainers({ id }, call);
    if (!this.#sandboxes.has(id)) await this.listPodSandbox({ id }, call);
    return this.#sandboxes.get(id);
  }

  async #observe(id: string, call: RuntimeCallOptions): Promise<ObservedState> {
    try {
      if (this.#sandboxes.get(id) === id) return (await this.podSandboxStatus(id, call)).state === 'READY' ? 'running' : 'stopped';
      const { state, reason } = await this.containerStatus(id, call);
      if (state === 'CREATED') return 'created';
      if (state === 'RUNNING') return 'running';
      return reason === 'OOMKilled' ? 'outOfMemory' : 'stopped';
    } catch (error) {
      if (isNotFound(error)) return 'gone';
      throw error;
    }
  }

  #emit(type: RuntimeEvent['type'], id: string): void {
    const sandboxId = this.#sandboxes.get(id);
    // the id was removed before, and its DELETED event was emitted then
    if (sandboxId === undefined) return;
    if (type === 'DELETED') this.#sandboxes.delete(id);
    this.#events.emit({ type, sandboxId, at: this.#context.clock.now(), ...(id !== sandboxId && { containerId: id }) });
  }
}
