import { mkdir } from 'node:fs/promises';
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
  type RuntimeInfo,
  type SandboxFilter,
  type Streams,
} from '@oarlock/spi/runtime';
import { collected } from './collected-output.ts';
import { container, containerStatus, listedName, sandbox, stateOf } from './container-state.ts';
import { ContainerUsage } from './container-usage.ts';
import { containerRequest, resources, sandboxRequest } from './create-request.ts';
import { EngineClient } from './engine-client.ts';
import { EngineContainers } from './engine-containers.ts';
import { hasCode } from './engine-errors.ts';
import { isNever, type EngineInfo } from './engine-shapes.ts';
import { EventHub } from './event-hub.ts';
import { Images } from './images.ts';
import { KeyedLock } from '@oarlock/kernel/keyed-lock';
import { LogCopies } from './log-copies.ts';
import { containerLabels, containerName, logPathLabel, ownerLabel, sandboxLabel, sandboxLabels, sandboxName } from './names.ts';
import { lowestOomScore } from './oom-score.ts';
import { ensureOwnPauseImage, ownPauseImage } from './pause-image.ts';
import { portForward } from './port-forward.ts';
import { SandboxNetwork, writeResolvConf } from './sandbox-network.ts';
import { SandboxRecords } from './sandbox-records.ts';
import { Sessions } from './sessions.ts';

export interface DockerRuntimeConfig {
  readonly socket: string;
  readonly sandboxImage?: string | undefined;
  readonly requestTimeoutSeconds: number;
  readonly imagePullTimeoutSeconds: number;
}
type Context = Pick<PluginContext, 'log' | 'clock' | 'dataDir'>;

/** How long a status waits for the end of a log. */
const logPatienceMs = 10_000;

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
  readonly #locks = new KeyedLock();
  readonly #lowestOom = lowestOomScore();
  readonly #stopping = new AbortController();
  #running: Promise<void> | undefined;
  #cgroupDriver: string | undefined;

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

  async runPodSandbox(config: PodSandboxConfig, _handler: string, call: RuntimeCall = {}): Promise<string> {
    const { signal } = call;
    if (this.#config.sandboxImage === undefined) await this.#locks.run('pause image', () => ensureOwnPauseImage(this.#engine, call));
    const { Id: id } = await this.#engine.call<{ readonly Id: string }>('POST', '/containers/create', {
      query: { name: sandboxName(config.metadata) },
      body: await sandboxRequest(config, {
        image: this.#config.sandboxImage ?? ownPauseImage,
        labels: sandboxLabels(config, this.#owner, this.#context.clock.now()),
        cgroupParent: await this.#cgroupParent(config, signal),
        lowestOom: this.#lowestOom,
      }),
      signal,
    });
    try {
      await this.#engine.call('POST', `/containers/${id}/start`, { signal });
      const { NetworkSettings, ResolvConfPath } = await this.#containers.inspect(id, signal);
      if (config.dns) await writeResolvConf(ResolvConfPath, config.dns);
      if (config.linux.security.namespaces.network !== 'NODE') await this.#network.connect(id, NetworkSettings.SandboxKey, config, call);
    } catch (error) {
      await this.removePodSandbox(id).catch((failure: unknown) =>
        this.#context.log.warn({ sandbox: id, error: String(failure) }, 'what a failed sandbox left stays until it is removed'),
      );
      throw error;
    }
    this.#hub.tell('STARTED', id);
    return id;
  }

  async stopPodSandbox(id: string, call: RuntimeCall = {}): Promise<void> {
    call.signal?.throwIfAborted();
    await this.#locks.run(id, async () => {
      const containers = await this.#containers.list('container', { sandboxId: id }, call.signal);
      await Promise.all(
        containers.filter(({ State }) => stateOf({ Status: State, ExitCode: 0 }) === 'RUNNING').map(({ Id }) => this.#containers.kill(Id)),
      );
      await this.#network.disconnect(id, call);
      await this.#containers.kill(id);
    });
  }

  async removePodSandbox(id: string, call: RuntimeCall = {}): Promise<void> {
    await this.stopPodSandbox(id, call);
    const containers = await this.#containers.list('container', { sandboxId: id }, call.signal);
    await Promise.all(containers.map(({ Id }) => this.#containers.remove(Id, call)));
    await this.#containers.remove(id, call);
  }

  async podSandboxStatus(id: string, { signal }: RuntimeCall = {}): Promise<PodSandboxStatus> {
    const found = await this.#containers.sandbox(id, signal);
    const ready = this.#isReady(id, found.State.Running, found.HostConfig.NetworkMode === 'host');
    return { ...sandbox(found.Id, found.Name, found.Config.Labels ?? {}, Date.parse(found.Created), ready), ips: this.#network.ipsOf(id) };
  }

  async listPodSandbox({ id, labels, state }: SandboxFilter = {}, { signal }: RuntimeCall = {}): Promise<readonly PodSandbox[]> {
    const listed = await this.#containers.list('podsandbox', { id, labels }, signal);
    return listed
      .map((one) =>
        sandbox(
          one.Id,
          listedName(one),
          one.Labels ?? {},
          one.Created * 1000,
          this.#isReady(one.Id, one.State === 'running', one.HostConfig?.NetworkMode === 'host'),
        ),
      )
      .filter((one) => (state ?? one.state) === one.state);
  }

  async createContainer(
    sandboxId: string,
    config: ContainerConfig,
    sandboxConfig: PodSandboxConfig,
    call: RuntimeCall = {},
  ): Promise<string> {
    const { signal } = call;
    const { state } = await this.podSandboxStatus(sandboxId, call);
    if (state !== 'READY') throw new RuntimeError('FailedPrecondition', `sandbox ${sandboxId} is not ready`);
    const { id: image, names } = await this.#images.resolve(config.image.image, call);
    // the engine refuses to mount what is not there; CRI makes a directory of it
    for (const { hostPath } of config.mounts) await mkdir(hostPath, { recursive: true }).catch(() => undefined);
    const labels = containerLabels(config, {
      sandboxId,
      logDirectory: sandboxConfig.logDirectory,
      owner: this.#owner,
      now: this.#context.clock.now(),
      image: { image: config.image.userSpecifiedImage ?? names.image, imageRef: names.imageRef },
    });
    const cgroupParent = await this.#cgroupParent(sandboxConfig, signal);
    const { Id } = await this.#engine.call<{ readonly Id: string }>('POST', '/containers/create', {
      query: { name: containerName(config, sandboxConfig) },
      body: await containerRequest(config, { image, labels, cgroupParent, lowestOom: this.#lowestOom, sandboxId, sandbox: sandboxConfig }),
      signal,
    });
    return Id;
  }

  async startContainer(id: string, { signal }: RuntimeCall = {}): Promise<void> {
    await this.#locks.run(id, async () => {
      const found = await this.#containers.inspect(id, signal);
      // the engine would run it once more
      if (stateOf(found.State) !== 'CREATED' || !isNever(found.State.StartedAt))
        throw new RuntimeError('FailedPrecondition', `container ${id} was started before: it is ${found.State.Status}`);
      await this.#logs.prepare({ id, path: found.Config.Labels?.[logPathLabel] ?? '', tty: found.Config.Tty });
      try {
        await this.#engine.call('POST', `/containers/${id}/start`, { signal });
      } catch (error) {
        const after = await this.#containers.inspect(id, undefined).catch(() => undefined); // what failed first is what is told
        if (after && stateOf(after.State) === 'EXITED') this.#hub.tell('STOPPED', after.Config.Labels?.[sandboxLabel] ?? '', id);
        throw error;
      } finally {
        this.#logs.begin(id);
      }
    });
  }

  async stopContainer(id: string, timeoutSeconds: number, { signal }: RuntimeCall = {}): Promise<void> {
    const seconds = Math.max(0, Math.ceil(timeoutSeconds));
    if (seconds === 0) await this.#containers.kill(id);
    else
      await unlessGone(
        this.#engine.call('POST', `/containers/${id}/stop`, {
          query: { t: seconds },
          timeoutMs: (seconds + this.#config.requestTimeoutSeconds) * 1000,
          signal,
        }),
      );
    await this.#logsOf(id);
  }

  async removeContainer(id: string, call: RuntimeCall = {}): Promise<void> {
    await this.#containers.remove(id, call);
  }

  async containerStatus(id: string, { signal }: RuntimeCall = {}): Promise<ContainerStatus> {
    const found = await this.#containers.inspect(id, signal);
    const status = containerStatus(found, this.#hub.starved(id));
    if (status.state === 'EXITED') await this.#logsOf(id);
    return status;
  }

  async listContainers(
    { id, sandboxId, state, labels }: ContainerFilter = {},
    { signal }: RuntimeCall = {},
  ): Promise<readonly Container[]> {
    const listed = await this.#containers.list('container', { id, sandboxId, labels }, signal);
    const found = await Promise.all(
      listed.map(async (one) =>
        container(one.Id, listedName(one), one.Labels ?? {}, one.Created * 1000, await this.#containers.stateOf(one, signal)),
      ),
    );
    return found.filter((one) => (state ?? one.state) === one.state);
  }

  async updateContainerResources(id: string, given: LinuxResources, { signal }: RuntimeCall = {}): Promise<void> {
    await this.#engine.call('POST', `/containers/${id}/update`, { body: resources(given), signal });
  }

  async reopenContainerLog(id: string, { signal }: RuntimeCall = {}): Promise<void> {
    const { State } = await this.#containers.inspect(id, signal);
    if (!State.Running) throw new RuntimeError('FailedPrecondition', `container ${id} does not run`);
    await this.#logs.reopen(id);
  }

  async execSync(
    id: string,
    command: readonly string[],
    timeoutSeconds: number,
    { signal }: RuntimeCall = {},
  ): Promise<{ readonly stdout: Buffer; readonly stderr: Buffer; readonly exitCode: number }> {
    const [stdout, stderr] = [collected(), collected()];
    const deadline = new AbortController();
    const timer =
      timeoutSeconds > 0
        ? this.#context.clock.after(timeoutSeconds * 1000, () =>
            deadline.abort(new RuntimeError('DeadlineExceeded', `command timed out after ${timeoutSeconds} s`)),
          )
        : undefined;
    try {
      const exitCode = await this.#sessions.exec(
        id,
        command,
        { tty: false, stdout: stdout.stream, stderr: stderr.stream },
        { signal: signal ? AbortSignal.any([signal, deadline.signal]) : deadline.signal },
      );
      return { stdout: stdout.bytes(), stderr: stderr.bytes(), exitCode };
    } finally {
      timer?.cancel();
    }
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

  #isReady(id: string, running: boolean, onNode: boolean): boolean {
    return running && (onNode || this.#network.ipsOf(id).length > 0);
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

  async #logsOf(id: string): Promise<void> {
    await Promise.race([this.#logs.complete(id), this.#context.clock.sleep(logPatienceMs)]);
  }

  /** systemd wants the name of a slice. */
  async #cgroupParent({ linux: { cgroupParent } }: PodSandboxConfig, signal: AbortSignal | undefined): Promise<string | undefined> {
    if (cgroupParent === undefined) return undefined;
    this.#cgroupDriver ??= (await this.#engine.call<EngineInfo>('GET', '/info', { signal })).CgroupDriver;
    if (this.#cgroupDriver !== 'systemd' || cgroupParent.endsWith('.slice')) return cgroupParent;
    const names = cgroupParent.split('/').filter((name) => name !== '');
    return `${names.map((name) => name.replaceAll('-', '_')).join('-')}.slice`;
  }
}

async function unlessGone(call: Promise<unknown>): Promise<void> {
  try {
    await call;
  } catch (error) {
    if (!hasCode(error, 'NotFound')) throw error;
  }
}
