import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import type { Lifecycle, PluginContext } from '@oarlock/kernel/plugin';
import type { NetworkDriver } from '@oarlock/spi/network';
import {
  RuntimeError,
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
  type RuntimeEvent,
  type RuntimeFeatures,
  type RuntimeInfo,
  type SandboxFilter,
  type Streams,
} from '@oarlock/spi/runtime';
import { Containers } from './containers/containers.ts';
import { ContainerStatsReader } from './containers/container-stats.ts';
import { EngineClient } from './engine/engine-client.ts';
import { EngineContainers } from './containers/engine-containers.ts';
import { hasCode } from './engine/engine-errors.ts';
import { featuresOf } from './engine/engine-features.ts';
import type { EngineInfo } from './engine/engine-types.ts';
import { EventBroadcaster } from './events/event-broadcaster.ts';
import { Images } from './engine/images.ts';
import { KeyedLock } from '@oarlock/primitives/concurrency/keyed-lock';
import { LogCopiers } from './logs/log-copier.ts';
import { logPathLabel, ownerLabel } from './engine/names-and-labels.ts';
import { lowestOomScore } from './containers/oom-score.ts';
import { ownPauseImage } from './containers/pause-image.ts';
import { portForward } from './streaming/port-forward.ts';
import { SandboxNetwork } from './containers/sandbox-network.ts';
import { SandboxRecords } from './containers/sandbox-records.ts';
import { Sandboxes } from './containers/sandboxes.ts';
import { StreamingSessions, type ExecResult } from './streaming/streaming-sessions.ts';

export interface DockerRuntimeConfig {
  readonly socket: string;
  readonly sandboxImage?: string | undefined;
  readonly requestTimeoutSeconds: number;
  readonly imagePullTimeoutSeconds: number;
}
type Context = Pick<PluginContext, 'log' | 'clock' | 'dataDir'>;

/** A RuntimeDriver for the Docker Engine. All state is in the engine or in the network records of the sandboxes. */
export class DockerRuntime implements RuntimeDriver, Lifecycle {
  readonly traits = { invokesCni: false, images: true, survivesRestart: true, networkNamespaces: true };
  readonly #config: DockerRuntimeConfig;
  readonly #context: Context;
  readonly #engine: EngineClient;
  readonly #events: EventBroadcaster;
  readonly #logs: LogCopiers;
  readonly #sessions: StreamingSessions;
  readonly #images: Images;
  readonly #engineContainers: EngineContainers;
  readonly #stats: ContainerStatsReader;
  readonly #records: SandboxRecords;
  readonly #network: SandboxNetwork;
  readonly #sandboxes: Sandboxes;
  readonly #containers: Containers;
  readonly #locks = new KeyedLock();
  readonly #lowestOom = lowestOomScore();
  readonly #stopping = new AbortController();
  #running: Promise<void> | undefined;

  constructor(config: DockerRuntimeConfig, network: NetworkDriver | undefined, context: Context) {
    const { clock, log } = context;
    this.#config = config;
    this.#context = context;
    this.#engine = new EngineClient({ socket: config.socket, timeoutMs: config.requestTimeoutSeconds * 1000, clock });
    this.#engineContainers = new EngineContainers(this.#engine, this.#locks, clock);
    this.#logs = new LogCopiers(this.#engine, { clock, log });
    this.#events = new EventBroadcaster({
      engine: this.#engine,
      clock,
      log,
      onExit: (id) => this.#logs.finish(id),
      onRemoved: (id) => this.#forget(id),
    });
    this.#sessions = new StreamingSessions(this.#engine, this.#events, clock);
    this.#images = new Images({
      engine: this.#engine,
      pullTimeoutMs: config.imagePullTimeoutSeconds * 1000,
      pinned: config.sandboxImage ?? ownPauseImage,
    });
    this.#stats = new ContainerStatsReader(this.#engine, clock);
    this.#records = new SandboxRecords(join(context.dataDir, 'sandboxes'));
    this.#network = new SandboxNetwork(network, this.#records);
    this.#sandboxes = new Sandboxes({
      engine: this.#engine,
      containers: this.#engineContainers,
      network: this.#network,
      locks: this.#locks,
      clock,
      log,
      image: config.sandboxImage,
      owner: this.#owner,
      lowestOom: this.#lowestOom,
      onStarted: (id) => this.#events.publish('STARTED', id),
    });
    this.#containers = new Containers({
      engine: this.#engine,
      containers: this.#engineContainers,
      sandboxes: this.#sandboxes,
      images: this.#images,
      logs: this.#logs,
      events: this.#events,
      locks: this.#locks,
      clock,
      requestTimeoutMs: config.requestTimeoutSeconds * 1000,
      owner: this.#owner,
      lowestOom: this.#lowestOom,
    });
  }

  /** Waits until the engine answers or the signal aborts, and then continues to copy the logs of existing containers. */
  async start(signal: AbortSignal): Promise<void> {
    const broken = await this.#records.load();
    if (broken.length > 0)
      this.#context.log.warn({ broken }, 'cannot read the records of some sandboxes; the network plugin frees their addresses');
    for (let pause = 50; ; pause = Math.min(pause * 2, 1000)) {
      try {
        await this.#engine.negotiate(signal);
        break;
      } catch (error) {
        signal.throwIfAborted();
        if (!hasCode(error, 'Unavailable')) throw error;
      }
      await this.#context.clock.sleep(pause, signal);
    }
    const { name, version } = await this.version({ signal });
    this.#context.log.info({ runtime: name, version, socket: this.#config.socket }, 'connected to the container runtime');
    await this.#resumeLogs(signal);
    this.#running = this.#events.run(this.#stopping.signal);
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#logs.stop();
    await this.#running;
    this.#engine.close();
  }

  async version({ signal }: RuntimeCallOptions = {}): Promise<RuntimeInfo> {
    const { Version } = await this.#engine.call<{ readonly Version: string }>('GET', '/version', { signal });
    return { name: 'docker', version: Version.replace(/\+.*$/, ''), apiVersion: 'v1' };
  }

  async features({ signal }: RuntimeCallOptions = {}): Promise<RuntimeFeatures> {
    return featuresOf(await this.#engine.call<EngineInfo>('GET', '/info', { signal }), await this.#engine.minor(signal));
  }

  cgroupDriver({ signal }: RuntimeCallOptions = {}): Promise<'cgroupfs' | 'systemd'> {
    return this.#sandboxes.cgroupDriver(signal);
  }

  async status({ signal }: RuntimeCallOptions = {}): Promise<readonly RuntimeCondition[]> {
    const runtime = await this.#engine.negotiate(signal).then(
      (): RuntimeCondition => ({ type: 'RuntimeReady', status: true, reason: '', message: '' }),
      (error: unknown): RuntimeCondition => {
        signal?.throwIfAborted();
        return { type: 'RuntimeReady', status: false, reason: 'DockerDaemonNotReady', message: (error as Error).message };
      },
    );
    return [runtime, await this.#network.condition()];
  }

  runPodSandbox(config: PodSandboxConfig, handler: string, call: RuntimeCallOptions = {}): Promise<string> {
    return this.#sandboxes.run(config, handler, call);
  }
  stopPodSandbox(id: string, call: RuntimeCallOptions = {}): Promise<void> {
    return this.#sandboxes.stop(id, call);
  }
  removePodSandbox(id: string, call: RuntimeCallOptions = {}): Promise<void> {
    return this.#sandboxes.remove(id, call);
  }
  podSandboxStatus(id: string, call: RuntimeCallOptions = {}): Promise<PodSandboxStatus> {
    return this.#sandboxes.status(id, call);
  }
  listPodSandbox(filter: SandboxFilter = {}, call: RuntimeCallOptions = {}): Promise<readonly PodSandbox[]> {
    return this.#sandboxes.list(filter, call);
  }

  createContainer(sandboxId: string, config: ContainerConfig, sandbox: PodSandboxConfig, call: RuntimeCallOptions = {}): Promise<string> {
    return this.#containers.create(sandboxId, { config, sandboxConfig: sandbox }, call);
  }
  startContainer(id: string, call: RuntimeCallOptions = {}): Promise<void> {
    return this.#containers.start(id, call);
  }
  stopContainer(id: string, timeoutSeconds: number, call: RuntimeCallOptions = {}): Promise<void> {
    return this.#containers.stop(id, timeoutSeconds, call);
  }
  removeContainer(id: string, call: RuntimeCallOptions = {}): Promise<void> {
    return this.#containers.remove(id, call);
  }
  containerStatus(id: string, call: RuntimeCallOptions = {}): Promise<ContainerStatus> {
    return this.#containers.status(id, call);
  }
  listContainers(filter: ContainerFilter = {}, call: RuntimeCallOptions = {}): Promise<readonly Container[]> {
    return this.#containers.list(filter, call);
  }
  updateContainerResources(id: string, limits: LinuxResources, call: RuntimeCallOptions = {}): Promise<void> {
    return this.#containers.update(id, limits, call);
  }
  reopenContainerLog(id: string, call: RuntimeCallOptions = {}): Promise<void> {
    return this.#containers.reopenLog(id, call);
  }

  execSync(id: string, command: readonly string[], timeoutSeconds: number, call: RuntimeCallOptions = {}): Promise<ExecResult> {
    return this.#sessions.execSync(id, { command, timeoutSeconds }, call);
  }
  exec(id: string, command: readonly string[], streams: Streams, call: RuntimeCallOptions = {}): Promise<number> {
    return this.#sessions.exec(id, { command, streams }, call);
  }

  attach(id: string, streams: Streams, call: RuntimeCallOptions = {}): Promise<void> {
    return this.#sessions.attach(id, streams, call);
  }

  async portForward(sandboxId: string, port: number, call: RuntimeCallOptions = {}): Promise<Duplex> {
    const { state } = await this.podSandboxStatus(sandboxId, call);
    if (state !== 'READY') throw new RuntimeError('FailedPrecondition', `sandbox ${sandboxId} is not ready`);
    return portForward({ port, sandboxId, netns: this.#network.netnsOf(sandboxId), signal: call.signal });
  }

  async containerStats(id: string, { signal }: RuntimeCallOptions = {}): Promise<ContainerStats> {
    const found = await this.#engineContainers.inspect(id, signal);
    if (!found.State.Running) throw new RuntimeError('FailedPrecondition', `container ${id} is not running`);
    return this.#stats.read(found, signal);
  }

  async listContainerStats(filter: ContainerFilter = {}, call: RuntimeCallOptions = {}): Promise<readonly ContainerStats[]> {
    const running = (await this.listContainers(filter, call)).filter(({ state }) => state === 'RUNNING');
    const stats = await Promise.all(
      running.map(({ id }) =>
        this.containerStats(id, call).catch((error: unknown) => {
          // it exited or was removed in the meantime
          if (hasCode(error, 'NotFound', 'FailedPrecondition')) return undefined;
          throw error;
        }),
      ),
    );
    return stats.filter((item) => item !== undefined);
  }

  events(signal: AbortSignal): AsyncIterable<RuntimeEvent | 'resync'> {
    return this.#events.listen(signal);
  }

  listImages(call: RuntimeCallOptions = {}): Promise<readonly Image[]> {
    return this.#images.list(call);
  }
  imageStatus(image: string, call: RuntimeCallOptions = {}): Promise<Image | undefined> {
    return this.#images.find(image, call);
  }
  pullImage(
    image: string,
    auth: RegistryAuth | undefined,
    _sandbox: PodSandboxConfig | undefined,
    call: RuntimeCallOptions = {},
  ): Promise<string> {
    return this.#images.pull(image, auth, call);
  }
  removeImage(image: string, call: RuntimeCallOptions = {}): Promise<void> {
    return this.#images.remove(image, call);
  }
  imageFsInfo(
    call: RuntimeCallOptions = {},
  ): Promise<{ readonly mountpoint: string; readonly usedBytes: number; readonly inodesUsed: number }> {
    return this.#images.usage(call);
  }

  get #owner(): string {
    return this.#context.dataDir;
  }

  async #resumeLogs(signal: AbortSignal): Promise<void> {
    const listed = await this.#engineContainers.list('container', { labels: { [ownerLabel]: this.#owner } }, signal);
    for (const { Id, State, Labels } of listed) {
      if (State === 'created') continue;
      const { Config } = await this.#engineContainers.inspect(Id, signal);
      await this.#logs.prepare({ id: Id, path: Labels?.[logPathLabel] ?? '', tty: Config.Tty });
      this.#logs.begin(Id);
    }
  }

  async #forget(id: string): Promise<void> {
    this.#stats.forget(id);
    await this.#logs.forget(id);
  }
}
