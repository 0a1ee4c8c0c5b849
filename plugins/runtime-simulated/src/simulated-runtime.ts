import type { Duplex } from 'node:stream';
import { BoundedEventBroadcaster } from '@oarlock/primitives/collections/bounded-event-queue';
import type { Clock } from '@oarlock/primitives/clock';
import {
  RuntimeError,
  type Container,
  type ContainerConfig,
  type ContainerFilter,
  type ContainerStats,
  type ContainerStatus,
  type Image,
  type PodSandbox,
  type PodSandboxConfig,
  type PodSandboxStatus,
  type RegistryAuth,
  type RuntimeCallOptions,
  type RuntimeCondition,
  type RuntimeDriver,
  type RuntimeEvent,
  type RuntimeInfo,
  type SandboxFilter,
  type Streams,
} from '@oarlock/spi/runtime';
import { AddressPool } from './address-pool.ts';
import { OutputCollector } from './output-collector.ts';
import { containerBehavior, hasDefaultBehavior, sandboxFailure, type ContainerBehavior } from './pod-behavior.ts';
import { ImageStore } from './image-store.ts';
import { PodTable } from './pod-table.ts';
import { programOf, type Program } from './container-program.ts';
import { runSession, type Session } from './session.ts';
import { SimulatedContainer, SimulatedSandbox } from './simulated-pod.ts';

export interface SimulatedOptions {
  /** How long a container takes to start, in milliseconds. */
  readonly startDelayMs?: number;
  /** How long a pull takes. */
  readonly pullDelayMs?: number;
  /** The range of sandbox addresses. */
  readonly addresses?: string;
  /** Images that exist without a pull. */
  readonly images?: readonly string[];
  /** Names whose pull fails. */
  readonly missingImages?: readonly string[];
}

/** A reader with more unread events gets `resync` instead. */
const maxUnreadEvents = 100_000;
const maxExecOutputBytes = 16 * 1024 * 1024;

/** The command of a session and its streams. */
interface SessionOptions {
  readonly argv: readonly string[];
  readonly streams: Streams;
  readonly signal: AbortSignal | undefined;
  readonly timeout?: { readonly ms: number; readonly error: RuntimeError } | undefined;
}

/**
 * A runtime in which no program runs: sandboxes and containers are entries of a table, and annotations and commands determine their
 * behavior, on a clock. For tests and for clusters of thousands of nodes.
 */
export class SimulatedRuntime implements RuntimeDriver {
  readonly traits = { invokesCni: false, images: true, survivesRestart: false, networkNamespaces: false, simulated: true } as const;
  readonly #clock: Clock;
  readonly #startDelay: number;
  readonly #pullDelay: number;
  readonly #addresses: AddressPool;
  readonly #images: ImageStore;
  readonly #events = new BoundedEventBroadcaster<RuntimeEvent | 'resync'>({ limit: maxUnreadEvents, overflow: 'resync' });
  readonly #pods = new PodTable();
  readonly #defaultBehavior: ContainerBehavior;
  #ids = 0;

  constructor(
    clock: Clock,
    { startDelayMs = 0, pullDelayMs = 0, addresses = '10.128.0.0/9', images = [], missingImages = [] }: SimulatedOptions = {},
  ) {
    this.#clock = clock;
    this.#startDelay = startDelayMs;
    this.#pullDelay = pullDelayMs;
    this.#addresses = new AddressPool(addresses);
    this.#images = new ImageStore(images, missingImages);
    this.#defaultBehavior = containerBehavior({}, '', startDelayMs);
  }

  async version(call?: RuntimeCallOptions): Promise<RuntimeInfo> {
    call?.signal?.throwIfAborted();
    return { name: 'simulated', version: '0.1.0', apiVersion: 'v1' };
  }
  async status(call?: RuntimeCallOptions): Promise<readonly RuntimeCondition[]> {
    call?.signal?.throwIfAborted();
    return (['RuntimeReady', 'NetworkReady'] as const).map((type) => ({ type, status: true, reason: '', message: '' }));
  }

  async runPodSandbox(config: PodSandboxConfig, _handler: string, call?: RuntimeCallOptions): Promise<string> {
    call?.signal?.throwIfAborted();
    const failure = sandboxFailure(config.annotations);
    if (failure !== undefined) throw new RuntimeError('Internal', failure);
    const { uid, attempt } = config.metadata;
    for (const other of this.#pods.ofPod(uid)) if (other.metadata.attempt === attempt) return other.id;
    const sandbox = new SimulatedSandbox(this.#id(), { config, address: this.#addresses.take(), now: this.#clock.now() });
    this.#pods.addSandbox(sandbox);
    this.#emit('STARTED', sandbox.id);
    return sandbox.id;
  }

  async stopPodSandbox(id: string, call?: RuntimeCallOptions): Promise<void> {
    call?.signal?.throwIfAborted();
    const sandbox = this.#pods.findSandbox(id);
    if (!sandbox || sandbox.state === 'NOTREADY') return;
    for (const container of sandbox.containers) this.#kill(container);
    sandbox.state = 'NOTREADY';
    this.#release(sandbox);
    this.#emit('STOPPED', id);
  }

  async removePodSandbox(id: string, call?: RuntimeCallOptions): Promise<void> {
    call?.signal?.throwIfAborted();
    const sandbox = this.#pods.findSandbox(id);
    if (!sandbox) return;
    for (const container of [...sandbox.containers]) this.#remove(container);
    this.#release(sandbox);
    this.#pods.removeSandbox(sandbox);
    this.#emit('DELETED', id);
  }

  async podSandboxStatus(id: string, call?: RuntimeCallOptions): Promise<PodSandboxStatus> {
    call?.signal?.throwIfAborted();
    return this.#pods.sandbox(id).status();
  }

  async listPodSandbox(filter: SandboxFilter = {}, call?: RuntimeCallOptions): Promise<readonly PodSandbox[]> {
    call?.signal?.throwIfAborted();
    return Array.from(this.#pods.sandboxes(filter), (sandbox) => sandbox.view());
  }

  async createContainer(
    sandboxId: string,
    config: ContainerConfig,
    _sandbox: PodSandboxConfig,
    call?: RuntimeCallOptions,
  ): Promise<string> {
    call?.signal?.throwIfAborted();
    const sandbox = this.#pods.sandbox(sandboxId);
    if (sandbox.state !== 'READY') throw new RuntimeError('FailedPrecondition', `sandbox ${sandboxId} is not ready`);
    const image = this.#images.find(config.image.image);
    if (!image) throw new RuntimeError('NotFound', `image ${config.image.image} does not exist`);
    const { name, attempt } = config.metadata;
    for (const other of sandbox.containers) if (other.metadata.name === name && other.metadata.attempt === attempt) return other.id;
    const behavior = hasDefaultBehavior(sandbox.annotations)
      ? this.#defaultBehavior
      : containerBehavior(sandbox.annotations, name, this.#startDelay);
    if (behavior.failCreate !== undefined) throw new RuntimeError('Internal', behavior.failCreate);
    const container = new SimulatedContainer(this.#id(), sandbox, { config, imageRef: image.id, behavior, now: this.#clock.now() });
    this.#pods.addContainer(container);
    this.#emit('CREATED', sandboxId, container.id);
    return container.id;
  }

  async startContainer(id: string, call?: RuntimeCallOptions): Promise<void> {
    call?.signal?.throwIfAborted();
    const container = this.#pods.container(id);
    if (container.state !== 'CREATED' || container.starting)
      throw new RuntimeError('FailedPrecondition', `container ${id} is not in created state`);
    if (container.sandbox.state !== 'READY') throw new RuntimeError('FailedPrecondition', `sandbox ${container.sandbox.id} is not ready`);
    const { behavior } = container;
    const program = programOf(container.argv, behavior, container.metadata.attempt);
    container.starting = true;
    try {
      if (behavior.startDelay > 0) await this.#clock.sleep(behavior.startDelay, call?.signal);
    } finally {
      container.starting = false;
    }
    if (container.state !== 'CREATED') throw new RuntimeError('FailedPrecondition', `container ${id} was stopped while it started`);
    const failure =
      behavior.failStart ??
      (program.missing ? `exec: "${container.argv[0]}": stat ${container.argv[0]}: no such file or directory` : undefined);
    if (failure !== undefined) {
      this.#end(container, { exitCode: startErrorExitCode, reason: 'StartError', message: failure });
      throw new RuntimeError('Internal', failure);
    }
    container.run(this.#clock.now(), program);
    this.#emit('STARTED', container.sandbox.id, id);
    if (program.exitAfter !== undefined) container.exitTimer = this.#clock.after(program.exitAfter, () => this.#exit(container, program));
  }

  async stopContainer(id: string, timeoutSeconds: number, call?: RuntimeCallOptions): Promise<void> {
    call?.signal?.throwIfAborted();
    const container = this.#pods.findContainer(id);
    if (!container || container.state === 'EXITED') return;
    if (container.state === 'CREATED') {
      this.#end(container, { exitCode: sigkillExitCode, reason: 'Error' });
      return;
    }
    const stopCode = container.program?.stopCode ?? 0;
    const delay = container.program?.ignoresStop ? Number.POSITIVE_INFINITY : container.behavior.stopDelay;
    const grace = timeoutSeconds * 1000;
    if (timeoutSeconds > 0 && delay === 0) {
      this.#end(container, { exitCode: stopCode, reason: stopCode === 0 ? 'Completed' : 'Error' });
      return;
    }
    if (timeoutSeconds > 0) await this.#clock.sleep(Math.min(delay, grace), call?.signal);
    if (delay <= grace && timeoutSeconds > 0) this.#end(container, { exitCode: stopCode, reason: stopCode === 0 ? 'Completed' : 'Error' });
    else this.#kill(container);
  }

  async removeContainer(id: string, call?: RuntimeCallOptions): Promise<void> {
    call?.signal?.throwIfAborted();
    const container = this.#pods.findContainer(id);
    if (container) this.#remove(container);
  }

  async containerStatus(id: string, call?: RuntimeCallOptions): Promise<ContainerStatus> {
    call?.signal?.throwIfAborted();
    return this.#pods.container(id).status();
  }

  async listContainers(filter: ContainerFilter = {}, call?: RuntimeCallOptions): Promise<readonly Container[]> {
    call?.signal?.throwIfAborted();
    return Array.from(this.#pods.containers(filter), (container) => container.view());
  }

  async updateContainerResources(id: string, _resources: unknown, call?: RuntimeCallOptions): Promise<void> {
    call?.signal?.throwIfAborted();
    this.#pods.container(id);
  }
  async reopenContainerLog(id: string, call?: RuntimeCallOptions): Promise<void> {
    call?.signal?.throwIfAborted();
    this.#pods.running(id);
  }

  async execSync(
    id: string,
    command: readonly string[],
    timeoutSeconds: number,
    call?: RuntimeCallOptions,
  ): Promise<{ readonly stdout: Buffer; readonly stderr: Buffer; readonly exitCode: number }> {
    const [stdout, stderr] = [new OutputCollector(maxExecOutputBytes), new OutputCollector(maxExecOutputBytes)];
    const timeout =
      timeoutSeconds > 0
        ? {
            ms: timeoutSeconds * 1000,
            error: new RuntimeError('DeadlineExceeded', `command ${command[0]} timed out after ${timeoutSeconds}s`),
          }
        : undefined;
    const exitCode = await this.#session(id, { argv: command, streams: { tty: false, stdout, stderr }, signal: call?.signal, timeout });
    return { stdout: stdout.bytes, stderr: stderr.bytes, exitCode };
  }

  exec(id: string, command: readonly string[], streams: Streams, call?: RuntimeCallOptions): Promise<number> {
    return this.#session(id, { argv: command, streams, signal: call?.signal });
  }

  /** A simulated container writes nothing: the session ends when the container exits, the caller's input ends, or the signal aborts. */
  async attach(id: string, streams: Streams, call?: RuntimeCallOptions): Promise<void> {
    const container = this.#pods.running(id);
    call?.signal?.throwIfAborted();
    await new Promise<void>((resolve, reject) => {
      container.onExit.add(resolve);
      streams.stdin?.on('end', resolve).resume();
      call?.signal?.addEventListener('abort', () => reject(call.signal?.reason), { once: true });
    });
  }

  async portForward(_sandboxId: string, port: number): Promise<Duplex> {
    throw new RuntimeError('Unsupported', `nothing listens on port ${port}: the pod is simulated`);
  }

  async containerStats(id: string, call?: RuntimeCallOptions): Promise<ContainerStats> {
    call?.signal?.throwIfAborted();
    return this.#pods.container(id).stats(this.#clock.now());
  }
  async listContainerStats(filter: ContainerFilter = {}, call?: RuntimeCallOptions): Promise<readonly ContainerStats[]> {
    call?.signal?.throwIfAborted();
    return Array.from(this.#pods.containers({ ...filter, state: 'RUNNING' }), (container) => container.stats(this.#clock.now()));
  }
  events(signal: AbortSignal): AsyncIterable<RuntimeEvent | 'resync'> {
    return this.#events.read(signal, ['resync']);
  }

  async listImages(call?: RuntimeCallOptions): Promise<readonly Image[]> {
    call?.signal?.throwIfAborted();
    return this.#images.list();
  }
  async imageStatus(image: string, call?: RuntimeCallOptions): Promise<Image | undefined> {
    call?.signal?.throwIfAborted();
    return this.#images.find(image);
  }
  async pullImage(
    image: string,
    _auth: RegistryAuth | undefined,
    _sandbox: PodSandboxConfig | undefined,
    call?: RuntimeCallOptions,
  ): Promise<string> {
    call?.signal?.throwIfAborted();
    if (this.#pullDelay > 0) await this.#clock.sleep(this.#pullDelay, call?.signal);
    return this.#images.pull(image).id;
  }
  async removeImage(image: string, call?: RuntimeCallOptions): Promise<void> {
    call?.signal?.throwIfAborted();
    this.#images.remove(image);
  }
  async imageFsInfo(
    call?: RuntimeCallOptions,
  ): Promise<{ readonly mountpoint: string; readonly usedBytes: number; readonly inodesUsed: number }> {
    call?.signal?.throwIfAborted();
    return { mountpoint: '/', usedBytes: this.#images.list().reduce((sum, image) => sum + image.sizeBytes, 0), inodesUsed: 0 };
  }

  /** Ends a running container as if its program had exited. For tests. */
  finish(id: string, exitCode: number): void {
    this.#end(this.#pods.running(id), { exitCode, reason: exitCode === 0 ? 'Completed' : 'Error' });
  }

  /** Returns an id as long as a real runtime's, so that measurements of what stores or shows ids are realistic. */
  #id(): string {
    return (++this.#ids).toString(16).padStart(64, '0');
  }

  #emit(type: RuntimeEvent['type'], sandboxId: string, containerId?: string): void {
    this.#events.push({ type, sandboxId, at: this.#clock.now(), ...(containerId !== undefined && { containerId }) });
  }

  async #session(id: string, { argv, streams: { stdin, stdout, stderr }, signal, timeout }: SessionOptions): Promise<number> {
    signal?.throwIfAborted();
    const container = this.#pods.running(id);
    const over = new AbortController();
    const end = () => over.abort(new RuntimeError('FailedPrecondition', `container ${id} is not running`));
    const abort = () => over.abort(signal?.reason);
    const timer = timeout && this.#clock.after(timeout.ms, () => over.abort(timeout.error));
    signal?.addEventListener('abort', abort, { once: true });
    const session: Session = {
      argv,
      stdin,
      stdout,
      stderr,
      signal: over.signal,
      clock: this.#clock,
      env: container.env,
      running: container.sessions,
      probe: (kind) => container.isHealthy(kind, this.#clock.now()),
      logs: () => container.log(),
    };
    container.sessions.add(argv);
    container.onExit.add(end);
    try {
      return await runSession(session);
    } finally {
      timer?.cancel();
      signal?.removeEventListener('abort', abort);
      container.sessions.delete(argv);
      container.onExit.delete(end);
    }
  }

  #exit(container: SimulatedContainer, program: Program): void {
    this.#end(container, { exitCode: program.exitCode, reason: program.exitCode === 0 ? 'Completed' : 'Error' });
  }
  #kill(container: SimulatedContainer): void {
    this.#end(container, { exitCode: sigkillExitCode, reason: 'Error' });
  }

  #end(
    container: SimulatedContainer,
    { exitCode, reason, message }: { readonly exitCode: number; readonly reason: string; readonly message?: string | undefined },
  ): void {
    if (container.state === 'EXITED') return;
    container.end(this.#clock.now(), { exitCode, reason, message });
    this.#emit('STOPPED', container.sandbox.id, container.id);
  }

  #remove(container: SimulatedContainer): void {
    this.#kill(container);
    this.#pods.removeContainer(container);
    this.#emit('DELETED', container.sandbox.id, container.id);
  }

  #release(sandbox: SimulatedSandbox): void {
    if (sandbox.holdsAddress) this.#addresses.release(sandbox.address);
    sandbox.holdsAddress = false;
  }
}

/** 128 + SIGKILL. */
const sigkillExitCode = 137;
/** The exit code that runtimes report for a container that could not be started. */
const startErrorExitCode = 128;
