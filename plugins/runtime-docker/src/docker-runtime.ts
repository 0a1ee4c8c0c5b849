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
  type RuntimeCall,
  type RuntimeCondition,
  type RuntimeDriver,
  type RuntimeEvent,
  type RuntimeFeatures,
  type RuntimeInfo,
  type SandboxFilter,
  type Streams,
} from '@oarlock/spi/runtime';
import { Containers } from './containers.ts';
import { ContainerUsage } from './container-usage.ts';
import { EngineClient } from './engine-client.ts';
import { EngineContainers } from './engine-containers.ts';
import { hasCode } from './engine-errors.ts';
import { featuresOf } from './engine-features.ts';
import type { EngineInfo } from './engine-shapes.ts';
import { EventHub } from './event-hub.ts';
import { Images } from './images.ts';
import { KeyedLock } from '@oarlock/kernel/keyed-lock';
import { LogCopies } from './log-copies.ts';
import { logPathLabel, ownerLabel } from './names.ts';
import { lowestOomScore } from './oom-score.ts';
import { ownPauseImage } from './pause-image.ts';
import { portForward } from './port-forward.ts';
import { SandboxNetwork } from './sandbox-network.ts';
import { SandboxRecords } from './sandbox-records.ts';
import { Sandboxes } from './sandboxes.ts';
import { Sessions, type ExecResult } from './sessions.ts';

export interface DockerRuntimeConfig {
  readonly socket: string;
  readonly sandboxImage?: string | undefined;
  readonly requestTimeoutSeconds: number;
  readonly imagePullTimeoutSeconds: number;
}
type Context = Pick<PluginContext, 'log' | 'clock' | 'dataDir'>;

/** The docker engine as a CRI runtime. Nothing is kept here that the engine or the network's records do not have. */
export class DockerRuntime implements RuntimeDriver, Lifecycle {
  readonly traits = { invokesCni: false, images: true, survivesRestart: true, networkNamespaces: true };
  readonly #config: DockerRuntimeConfig;
  readonly #context: Context;
  readonly #engine: EngineClient;
  readonly #hub: EventHub;
  readonly #logs: LogCopies;
  readonly #sessions: Sessions;
  readonly #images: Images;
  readonly #containers: EngineContainers;
  readonly #usage: ContainerUsage;
  readonly #records: SandboxRecords;
  readonly #network: SandboxNetwork;
  readonly #sandboxes: Sandboxes;
  readonly #created: Containers;
  readonly #locks = new KeyedLock();
  readonly #lowestOom = lowestOomScore();
  readonly #stopping = new AbortController();
  #running: Promise<void> | undefined;

  constructor(config: DockerRuntimeConfig, network: NetworkDriver | undefined, context: Context) {
    const { clock, log } = context;
    this.#config = config;
    this.#context = context;
    this.#engine = new EngineClient({ socket: config.socket, timeoutMs: config.requestTimeoutSeconds * 1000, clock });
    this.#containers = new EngineContainers(this.#engine, this.#locks, clock);
    this.#logs = new LogCopies(this.#engine, { clock, log });
    this.#hub = new EventHub({
      engine: this.#engine,
      clock,
      log,
      ended: (id) => this.#logs.ended(id),
      removed: (id) => this.#forget(id),
    });
    this.#sessions = new Sessions(this.#engine, this.#hub, clock);
    this.#images = new Images({
      engine: this.#engine,
      pullTimeoutMs: config.imagePullTimeoutSeconds * 1000,
      pinned: config.sandboxImage ?? ownPauseImage,
    });
    this.#usage = new ContainerUsage(this.#engine, clock);
    this.#records = new SandboxRecords(join(context.dataDir, 'sandboxes'));
    this.#network = new SandboxNetwork(network, this.#records);
    this.#sandboxes = new Sandboxes({
      engine: this.#engine,
      containers: this.#containers,
      network: this.#network,
      locks: this.#locks,
      clock,
      log,
      image: config.sandboxImage,
      owner: this.#owner,
      lowestOom: this.#lowestOom,
      started: (id) => this.#hub.tell('STARTED', id),
    });
    this.#created = new Containers({
      engine: this.#engine,
      containers: this.#containers,
      sandboxes: this.#sandboxes,
      images: this.#images,
      logs: this.#logs,
      hub: this.#hub,
      locks: this.#locks,
      clock,
      requestTimeoutMs: config.requestTimeoutSeconds * 1000,
      owner: this.#owner,
      lowestOom: this.#lowestOom,
    });
  }

  /** Waits until the engine answers, for as long as the start is wanted, and goes on with the logs of containers that it finds. */
  async start(signal: AbortSignal): Promise<void> {
    const broken = await this.#records.load();
    if (broken.length > 0) this.#context.log.warn({ broken }, 'records of sandboxes could not be read; the network frees what they had');
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
    await this.#adopt(signal);
    this.#running = this.#hub.run(this.#stopping.signal);
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#logs.stop();
    await this.#running;
    this.#engine.close();
  }

  async version({ signal }: RuntimeCall = {}): Promise<RuntimeInfo> {
    const { Version } = await this.#engine.call<{ readonly Version: string }>('GET', '/version', { signal });
    return { name: 'docker', version: Version.replace(/\+.*$/, ''), apiVersion: 'v1' };
  }

  async features({ signal }: RuntimeCall = {}): Promise<RuntimeFeatures> {
    return featuresOf(await this.#engine.call<EngineInfo>('GET', '/info', { signal }), await this.#engine.minor(signal));
  }

  cgroupDriver({ signal }: RuntimeCall = {}): Promise<'cgroupfs' | 'systemd'> {
    return this.#sandboxes.cgroupDriver(signal);
  }

  async status({ signal }: RuntimeCall = {}): Promise<readonly RuntimeCondition[]> {
    const runtime = await this.#engine.negotiate(signal).then(
      (): RuntimeCondition => ({ type: 'RuntimeReady', status: true, reason: '', message: '' }),
      (error: unknown): RuntimeCondition => {
        signal?.throwIfAborted();
        return { type: 'RuntimeReady', status: false, reason: 'DockerDaemonNotReady', message: (error as Error).message };
      },
    );
    return [runtime, await this.#network.condition()];
  }

  runPodSandbox(config: PodSandboxConfig, handler: string, call: RuntimeCall = {}): Promise<string> {
    return this.#sandboxes.run(config, handler, call);
  }
  stopPodSandbox(id: string, call: RuntimeCall = {}): Promise<void> {
    return this.#sandboxes.stop(id, call);
  }
  removePodSandbox(id: string, call: RuntimeCall = {}): Promise<void> {
    return this.#sandboxes.remove(id, call);
  }
  podSandboxStatus(id: string, call: RuntimeCall = {}): Promise<PodSandboxStatus> {
    return this.#sandboxes.status(id, call);
  }
  listPodSandbox(filter: SandboxFilter = {}, call: RuntimeCall = {}): Promise<readonly PodSandbox[]> {
    return this.#sandboxes.list(filter, call);
  }

  createContainer(sandboxId: string, config: ContainerConfig, sandbox: PodSandboxConfig, call: RuntimeCall = {}): Promise<string> {
    return this.#created.create(sandboxId, config, sandbox, call);
  }
  startContainer(id: string, call: RuntimeCall = {}): Promise<void> {
    return this.#created.start(id, call);
  }
  stopContainer(id: string, timeoutSeconds: number, call: RuntimeCall = {}): Promise<void> {
    return this.#created.stop(id, timeoutSeconds, call);
  }
  removeContainer(id: string, call: RuntimeCall = {}): Promise<void> {
    return this.#created.remove(id, call);
  }
  containerStatus(id: string, call: RuntimeCall = {}): Promise<ContainerStatus> {
    return this.#created.status(id, call);
  }
  listContainers(filter: ContainerFilter = {}, call: RuntimeCall = {}): Promise<readonly Container[]> {
    return this.#created.list(filter, call);
  }
  updateContainerResources(id: string, given: LinuxResources, call: RuntimeCall = {}): Promise<void> {
    return this.#created.update(id, given, call);
  }
  reopenContainerLog(id: string, call: RuntimeCall = {}): Promise<void> {
    return this.#created.reopenLog(id, call);
  }

  execSync(id: string, command: readonly string[], timeoutSeconds: number, call: RuntimeCall = {}): Promise<ExecResult> {
    return this.#sessions.execSync(id, command, timeoutSeconds, call);
  }
  exec(id: string, command: readonly string[], streams: Streams, call: RuntimeCall = {}): Promise<number> {
    return this.#sessions.exec(id, command, streams, call);
  }

  attach(id: string, streams: Streams, call: RuntimeCall = {}): Promise<void> {
    return this.#sessions.attach(id, streams, call);
  }

  async portForward(sandboxId: string, port: number, call: RuntimeCall = {}): Promise<Duplex> {
    const { state } = await this.podSandboxStatus(sandboxId, call);
    if (state !== 'READY') throw new RuntimeError('FailedPrecondition', `sandbox ${sandboxId} is not ready`);
    return portForward(port, this.#network.netnsOf(sandboxId), call.signal);
  }

  async containerStats(id: string, { signal }: RuntimeCall = {}): Promise<ContainerStats> {
    const found = await this.#containers.inspect(id, signal);
    if (!found.State.Running) throw new RuntimeError('FailedPrecondition', `container ${id} does not run`);
    return this.#usage.of(found, signal);
  }

  async listContainerStats(filter: ContainerFilter = {}, call: RuntimeCall = {}): Promise<readonly ContainerStats[]> {
    const running = (await this.listContainers(filter, call)).filter(({ state }) => state === 'RUNNING');
    const found = await Promise.all(
      running.map(({ id }) =>
        this.containerStats(id, call).catch((error: unknown) => {
          // it ended meanwhile
          if (hasCode(error, 'NotFound', 'FailedPrecondition')) return undefined;
          throw error;
        }),
      ),
    );
    return found.filter((one) => one !== undefined);
  }

  events(signal: AbortSignal): AsyncIterable<RuntimeEvent | 'resync'> {
    return this.#hub.listen(signal);
  }

  listImages(call: RuntimeCall = {}): Promise<readonly Image[]> {
    return this.#images.list(call);
  }
  imageStatus(image: string, call: RuntimeCall = {}): Promise<Image | undefined> {
    return this.#images.find(image, call);
  }
  pullImage(
    image: string,
    auth: RegistryAuth | undefined,
    _sandbox: PodSandboxConfig | undefined,
    call: RuntimeCall = {},
  ): Promise<string> {
    return this.#images.pull(image, auth, call);
  }
  removeImage(image: string, call: RuntimeCall = {}): Promise<void> {
    return this.#images.remove(image, call);
  }
  imageFsInfo(call: RuntimeCall = {}): Promise<{ readonly mountpoint: string; readonly usedBytes: number; readonly inodesUsed: number }> {
    return this.#images.usage(call);
  }

  get #owner(): string {
    return this.#context.dataDir;
  }

  async #adopt(signal: AbortSignal): Promise<void> {
    const listed = await this.#containers.list('container', { labels: { [ownerLabel]: this.#owner } }, signal);
    for (const { Id, State, Labels } of listed) {
      if (State === 'created') continue;
      const { Config } = await this.#containers.inspect(Id, signal);
      await this.#logs.prepare({ id: Id, path: Labels?.[logPathLabel] ?? '', tty: Config.Tty });
      this.#logs.begin(Id);
    }
  }

  async #forget(id: string): Promise<void> {
    this.#usage.forget(id);
    await this.#logs.forget(id);
  }
}
