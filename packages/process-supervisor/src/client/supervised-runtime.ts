import { randomBytes } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import type { Duplex } from 'node:stream';
import type { Clock } from '@oarlock/primitives/clock';
import { BoundedEventBroadcaster } from '@oarlock/primitives/collections/bounded-event-queue';
import type { Logger } from '@oarlock/primitives/logger';
import type { NetworkDriver } from '@oarlock/spi/network';
import {
  RuntimeError,
  type Container,
  type ContainerFilter,
  type ContainerStats,
  type ContainerStatus,
  type LinuxResources,
  type PodSandbox,
  type PodSandboxConfig,
  type PodSandboxStatus,
  type RuntimeCallOptions,
  type RuntimeCondition,
  type RuntimeEvent,
  type RuntimeInfo,
  type SandboxFilter,
  type Streams,
} from '@oarlock/spi/runtime';
import { canMakeNamespaces } from '../host/host-tools.ts';
import { isIpcSysctl } from '../host/ipc-sysctls.ts';
import type { SandboxRecord } from '../protocol/supervisor-protocol.ts';
import { DriverSessions } from './driver-sessions.ts';
import { PodNetwork } from './pod-network.ts';
import { hasLabels, matchingSandboxes, sandboxStatus } from './record-filters.ts';
import { toRuntimeError } from './runtime-error.ts';
import { abortable, SupervisorClient } from './supervisor-client.ts';
import type { SupervisorProgram } from './supervisor-launch.ts';

export interface SupervisedRuntimeOptions {
  /** Name of the runtime in `version`. */
  readonly name: string;
  readonly program: SupervisorProgram;
  readonly network: NetworkDriver | undefined;
  /** Whether the supervisor sets sysctls of the IPC namespace. Those of the network are set in any case. */
  readonly ipcSysctls?: boolean;
  /** Whether pods may have network namespaces of their own. */
  readonly namespaces: boolean;
  /** Whether pods keep running after an orderly stop. */
  readonly keepPods: boolean;
  readonly stopGraceSeconds: number;
  readonly clock: Clock;
  readonly log: Logger;
}

/** The annotation in which the kubelet passes addresses that it obtained itself. */
const podIPs = 'oarlock.dev/pod-ips';
const noSandbox = '-';
const version = '0.1.0';
/** A reader with more unread events gets `resync` instead. */
const maxUnreadEvents = 10_000;

/** The part of a runtime driver that a supervisor process serves: sandboxes and containers, but not images. */
export abstract class SupervisedRuntime {
  protected readonly supervisor: SupervisorClient;
  readonly #options: SupervisedRuntimeOptions;
  readonly #network: PodNetwork | undefined;
  readonly #sessions: DriverSessions;
  readonly #events = new BoundedEventBroadcaster<RuntimeEvent | 'resync'>({ limit: maxUnreadEvents, overflow: 'resync' });

  constructor(options: SupervisedRuntimeOptions) {
    this.#options = options;
    const { network, namespaces, program, clock } = options;
    this.#network = network?.traits.namespace === 'pod' && namespaces && canMakeNamespaces() ? new PodNetwork(network) : undefined;
    this.supervisor = new SupervisorClient(program, options, (event) => this.#events.push(event));
    this.#sessions = new DriverSessions(this.supervisor, clock);
  }

  protected get networkNamespaces(): boolean {
    return this.#network !== undefined;
  }

  /** Connects to the supervisor of an earlier run. Starts none if there are no pods. */
  protected async connect(): Promise<void> {
    await mkdir(this.#options.program.options.dataDir, { recursive: true, mode: 0o700 });
    await this.supervisor.connectIfAny();
  }

  async stop(): Promise<void> {
    try {
      if (!this.#options.keepPods && this.supervisor.info) {
        const sandboxes = await this.supervisor.call('sandbox.list', {});
        const graceMs = this.#options.stopGraceSeconds * 1000;
        await Promise.all(sandboxes.map(({ id }) => this.#stopSandbox(id, graceMs, {})));
        await this.supervisor.call('shutdown', {});
      }
    } finally {
      this.supervisor.stop();
    }
  }

  async version({ signal }: RuntimeCallOptions = {}): Promise<RuntimeInfo> {
    signal?.throwIfAborted();
    return { name: this.#options.name, version, apiVersion: 'v1' };
  }

  async status({ signal }: RuntimeCallOptions = {}): Promise<readonly RuntimeCondition[]> {
    signal?.throwIfAborted();
    const notes = this.supervisor.info?.notes ?? [];
    // one that hangs runs no pods; the call returns nothing, and every version of the supervisor knows it
    if (this.supervisor.info) await this.supervisor.call('container.list', { sandboxId: noSandbox }, signal);
    return [
      { type: 'RuntimeReady', status: true, reason: '', message: notes.join('; ') },
      { type: 'NetworkReady', status: true, reason: '', message: this.#network ? '' : 'pods share the network of the host' },
    ];
  }

  async runPodSandbox(config: PodSandboxConfig, _handler: string, call: RuntimeCallOptions = {}): Promise<string> {
    const { signal } = call;
    const id = randomBytes(32).toString('hex');
    // without namespaces a pod shares the host's network, as the traits declare; the kubelet knows its addresses
    if (config.linux.security.namespaces.network !== 'POD' || !this.#network) {
      const [sysctl] = Object.keys(this.#sysctlsOutsideIpc(config));
      if (sysctl !== undefined)
        throw new RuntimeError(
          'Unsupported',
          `a pod that shares the host's network cannot set sysctls: ${JSON.stringify(sysctl)} would apply to the host`,
        );
      await this.supervisor.call('sandbox.create', { id, config, ips: config.annotations[podIPs]?.split(',') ?? [], ready: true }, signal);
      return id;
    }
    // the record is written first, not ready: after a crash it shows that there may be a namespace to remove
    try {
      await this.supervisor.call('sandbox.create', { id, config, ips: [], netns: PodNetwork.pathOf(id), ready: false }, signal);
      const ips = await this.#network.connect(
        id,
        { ...config, linux: { ...config.linux, sysctls: this.#sysctlsOutsideIpc(config) } },
        call,
      );
      await this.supervisor.call('sandbox.ready', { id, ips });
    } catch (error) {
      await this.removePodSandbox(id).catch((failure: unknown) =>
        this.#options.log.warn(
          { sandbox: id, error: String(failure) },
          'cannot remove a failed sandbox; its remains stay until it is removed',
        ),
      );
      throw toRuntimeError(error);
    }
    return id;
  }

  /** Returns the sysctls of a pod that the supervisor does not set. */
  #sysctlsOutsideIpc({ linux: { sysctls = {}, security } }: PodSandboxConfig): Readonly<Record<string, string>> {
    if (this.#options.ipcSysctls !== true || security.namespaces.ipc === 'NODE') return sysctls;
    return Object.fromEntries(Object.entries(sysctls).filter(([name]) => !isIpcSysctl(name)));
  }

  async stopPodSandbox(id: string, call: RuntimeCallOptions = {}): Promise<void> {
    call.signal?.throwIfAborted();
    await abortable(this.#stopSandbox(id, 0, call), call.signal);
  }

  async #stopSandbox(id: string, graceMs: number, call: RuntimeCallOptions): Promise<void> {
    if (!(await this.supervisor.connectIfAny())) return;
    const record = await this.supervisor.call('sandbox.stop', { id, graceMs });
    if (record?.netns !== undefined) await this.#network?.disconnect(id, record.config, call);
  }

  async removePodSandbox(id: string, call: RuntimeCallOptions = {}): Promise<void> {
    await this.stopPodSandbox(id, call);
    if (await this.supervisor.connectIfAny()) await this.supervisor.call('sandbox.remove', { id }, call.signal);
  }

  async podSandboxStatus(id: string, { signal }: RuntimeCallOptions = {}): Promise<PodSandboxStatus> {
    return sandboxStatus(await this.sandbox(id, signal));
  }

  async listPodSandbox(filter: SandboxFilter = {}, { signal }: RuntimeCallOptions = {}): Promise<readonly PodSandbox[]> {
    signal?.throwIfAborted();
    if (!(await this.supervisor.connectIfAny())) return [];
    return matchingSandboxes(await this.supervisor.call('sandbox.list', {}, signal), filter);
  }

  async startContainer(id: string, { signal }: RuntimeCallOptions = {}): Promise<void> {
    await this.#requireSupervisor(id, signal);
    await this.supervisor.call('container.start', { id }, signal);
  }

  async stopContainer(id: string, timeoutSeconds: number, { signal }: RuntimeCallOptions = {}): Promise<void> {
    signal?.throwIfAborted();
    if (await this.supervisor.connectIfAny())
      await this.supervisor.call('container.stop', { id, graceMs: Math.max(0, timeoutSeconds) * 1000 }, signal);
  }

  async removeContainer(id: string, { signal }: RuntimeCallOptions = {}): Promise<void> {
    signal?.throwIfAborted();
    if (await this.supervisor.connectIfAny()) await this.supervisor.call('container.remove', { id }, signal);
  }

  async containerStatus(id: string, { signal }: RuntimeCallOptions = {}): Promise<ContainerStatus> {
    await this.#requireSupervisor(id, signal);
    return this.supervisor.call('container.get', { id }, signal);
  }

  async listContainers(filter: ContainerFilter = {}, { signal }: RuntimeCallOptions = {}): Promise<readonly Container[]> {
    signal?.throwIfAborted();
    if (!(await this.supervisor.connectIfAny())) return [];
    return (await this.containers(filter, signal)).map(
      ({ id, sandboxId, metadata, image, imageRef, state, createdAt, labels, annotations }) => ({
        id,
        sandboxId,
        metadata,
        image,
        imageRef,
        state,
        createdAt,
        labels,
        annotations,
      }),
    );
  }

  async updateContainerResources(id: string, resources: LinuxResources, { signal }: RuntimeCallOptions = {}): Promise<void> {
    await this.#requireSupervisor(id, signal);
    await this.supervisor.call('container.update', { id, resources }, signal);
  }

  async reopenContainerLog(id: string, { signal }: RuntimeCallOptions = {}): Promise<void> {
    await this.#requireSupervisor(id, signal);
    await this.supervisor.call('container.reopenLog', { id }, signal);
  }

  async execSync(
    id: string,
    command: readonly string[],
    timeoutSeconds: number,
    call: RuntimeCallOptions = {},
  ): Promise<{ readonly stdout: Buffer; readonly stderr: Buffer; readonly exitCode: number }> {
    await this.#requireSupervisor(id, call.signal);
    return this.#sessions.execSync(id, { command, timeoutSeconds }, call);
  }
  async exec(id: string, command: readonly string[], streams: Streams, call: RuntimeCallOptions = {}): Promise<number> {
    await this.#requireSupervisor(id, call.signal);
    return this.#sessions.exec(id, { command, streams }, call);
  }
  async attach(id: string, streams: Streams, call: RuntimeCallOptions = {}): Promise<void> {
    await this.#requireSupervisor(id, call.signal);
    return this.#sessions.attach(id, streams, call);
  }
  async portForward(sandboxId: string, port: number, call: RuntimeCallOptions = {}): Promise<Duplex> {
    return this.#sessions.portForward(await this.sandbox(sandboxId, call.signal), port, call);
  }

  async containerStats(id: string, { signal }: RuntimeCallOptions = {}): Promise<ContainerStats> {
    await this.#requireSupervisor(id, signal);
    const [stats] = await this.supervisor.call('container.stats', { id }, signal);
    if (!stats) throw new RuntimeError('FailedPrecondition', `container ${id} is not running`);
    return stats;
  }

  async listContainerStats(filter: ContainerFilter = {}, { signal }: RuntimeCallOptions = {}): Promise<readonly ContainerStats[]> {
    signal?.throwIfAborted();
    if (!(await this.supervisor.connectIfAny())) return [];
    const [all, matching] = await Promise.all([
      this.supervisor.call('container.stats', filter.sandboxId === undefined ? {} : { sandboxId: filter.sandboxId }, signal),
      this.containers(filter, signal),
    ]);
    const ids = new Set(matching.map(({ id }) => id));
    return all.filter(({ id }) => ids.has(id));
  }

  events(signal: AbortSignal): AsyncIterable<RuntimeEvent | 'resync'> {
    return this.#events.read(signal, ['resync']);
  }

  protected async containers(
    { id, sandboxId, state, labels }: ContainerFilter,
    signal: AbortSignal | undefined,
  ): Promise<readonly ContainerStatus[]> {
    const all = await this.supervisor.call('container.list', sandboxId === undefined ? {} : { sandboxId }, signal);
    return all.filter((item) => (id ?? item.id) === item.id && (state ?? item.state) === item.state && hasLabels(item.labels, labels));
  }

  /** Checks that a supervisor runs, without starting one. @throws RuntimeError `NotFound` if there is no supervisor and therefore no container */
  async #requireSupervisor(id: string, signal: AbortSignal | undefined): Promise<void> {
    signal?.throwIfAborted();
    if (!(await this.supervisor.connectIfAny())) throw new RuntimeError('NotFound', `there is no container ${id}`);
  }
  protected async sandbox(id: string, signal: AbortSignal | undefined): Promise<SandboxRecord> {
    signal?.throwIfAborted();
    if (!(await this.supervisor.connectIfAny())) throw new RuntimeError('NotFound', `there is no sandbox ${id}`);
    return this.supervisor.call('sandbox.get', { id }, signal);
  }
}
