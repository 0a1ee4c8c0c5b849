import { randomBytes } from 'node:crypto';
import { isAbsolute, join } from 'node:path';
import type { Logger } from '@oarlock/primitives/logger';
import type { ContainerConfig, ContainerStats, LinuxResources, PodSandboxConfig, RuntimeEvent } from '@oarlock/spi/runtime';
import type { CgroupManager } from '../host/cgroups.ts';
import { startTime } from '../host/process-table.ts';
import { SupervisorError, type SandboxRecord } from '../protocol/supervisor-protocol.ts';
import type { ContainerLauncher, ExecCommand, SandboxContainer } from './container-launcher.ts';
import type { ContainerProcess } from './container-process.ts';
import { readContainerStats } from './internal/container-stats.ts';
import { LogFile } from './internal/cri-log.ts';
import { signalNumber } from './internal/signal-number.ts';
import type { ContainerRecord, PodStore } from './pod-store.ts';
import type { HostServices } from './process-group.ts';
import { RunningContainer, type ExitResult } from './running-container.ts';

export interface ContainerServices {
  readonly host: Pick<HostServices, 'clock'>;
  readonly launcher: ContainerLauncher;
  readonly cgroups: CgroupManager | undefined;
  readonly store: PodStore;
  readonly log: Logger;
  emit(event: RuntimeEvent): void;
  sandbox(id: string): SandboxRecord;
}

export interface NewContainer {
  readonly config: ContainerConfig;
  /** Default: a new id. */
  readonly id?: string;
  readonly imageRef?: string;
  readonly prepared?: unknown;
}

interface Entry {
  record: ContainerRecord;
  /** The running start of the container; undefined if the container is not being started. */
  starting?: Promise<unknown>;
  running?: RunningContainer;
  /** Resolves when the exit of the container is stored. */
  ended?: Promise<void>;
  /** Resolves when the cgroup of the container is removed. */
  cleaned?: Promise<void>;
}

/** Manages the containers of one supervisor, from creation to removal. */
export class Containers {
  readonly #services: ContainerServices;
  readonly #entries = new Map<string, Entry>();
  /** The container ids by name and attempt, keyed by sandbox id. */
  readonly #bySandbox = new Map<string, Map<string, string>>();

  constructor(services: ContainerServices) {
    this.#services = services;
  }

  /** Adopts the container records of an earlier supervisor, whose processes may run. */
  adopt(records: readonly ContainerRecord[], rebooted: boolean): void {
    for (const record of records) {
      this.#index(record);
      const entry: Entry = { record };
      this.#entries.set(record.id, entry);
      if (record.state !== 'RUNNING') continue;
      const adopted = this.#services.launcher.adopt(this.#inSandbox(record), rebooted);
      if ('process' in adopted) {
        this.#follow(entry, { ...adopted, log: this.#openLog(record) });
        continue;
      }
      const { exitCode, reason, message, finishedAt = this.#now() } = adopted;
      this.#save(entry, { ...record, state: 'EXITED', finishedAt, exitCode, reason, ...(message !== undefined && { message }) });
    }
  }

  get anyRunning(): boolean {
    for (const { running, starting } of this.#entries.values()) if (running || starting) return true;
    return false;
  }

  /** Returns the record of a container. @throws SupervisorError `NotFound` if the container does not exist */
  get(id: string): ContainerRecord {
    return this.#entry(id).record;
  }
  list(sandboxId?: string): readonly ContainerRecord[] {
    if (sandboxId === undefined) return [...this.#entries.values()].map(({ record }) => record);
    return [...(this.#bySandbox.get(sandboxId)?.values() ?? [])].map((id) => this.#entry(id).record);
  }

  create(sandbox: SandboxRecord, { config, id = randomBytes(32).toString('hex'), imageRef, prepared }: NewContainer): string {
    const names = this.#bySandbox.get(sandbox.id);
    if (names?.has(nameOf(config)))
      throw new SupervisorError(
        'AlreadyExists',
        `container ${config.metadata.name}, attempt ${config.metadata.attempt}, of sandbox ${sandbox.id} already exists`,
      );
    if (!/^[0-9a-f]{64}$/.test(id) || this.#entries.has(id))
      throw new SupervisorError('InvalidArgument', `not the id of a new container: ${JSON.stringify(id)}`);
    if (config.stopSignal !== undefined) signalNumber(config.stopSignal);
    for (const { containerPath, hostPath, image } of config.mounts)
      if (!isAbsolute(containerPath) || (image === undefined && !isAbsolute(hostPath)))
        throw new SupervisorError('InvalidArgument', `a mount's paths must be absolute: ${containerPath}, ${hostPath}`);
    this.#services.launcher.check(config);
    const record: ContainerRecord = {
      id,
      sandboxId: sandbox.id,
      config,
      state: 'CREATED',
      createdAt: this.#now(),
      logPath: join(sandbox.config.logDirectory, config.logPath),
      ...(imageRef !== undefined && { imageRef }),
      ...(prepared !== undefined && { prepared }),
    };
    this.#services.store.saveContainer(record);
    this.#entries.set(id, { record });
    this.#index(record);
    this.#emit('CREATED', record);
    return id;
  }

  async start(id: string): Promise<void> {
    const entry = this.#entry(id);
    if (entry.starting || entry.record.state !== 'CREATED')
      throw new SupervisorError('FailedPrecondition', `container ${id} is ${entry.starting ? 'being started' : entry.record.state}`);
    const sandbox = this.#services.sandbox(entry.record.sandboxId);
    if (sandbox.state !== 'READY') throw new SupervisorError('FailedPrecondition', `sandbox ${sandbox.id} is not ready`);
    const starting = this.#start(entry, sandbox);
    entry.starting = starting
      .catch(() => {})
      .finally(() => {
        delete entry.starting;
      });
    await starting;
  }

  async #start(entry: Entry, sandbox: SandboxRecord): Promise<void> {
    const { record } = entry;
    let log: LogFile | undefined;
    try {
      log = this.#openLog(record);
      const { process: started, cgroup, data } = await this.#services.launcher.start({ record, sandbox });
      this.#follow(entry, { process: started, cgroup, log });
      const pidStarted = startTime(started.pid);
      this.#save(entry, {
        ...record,
        state: 'RUNNING',
        startedAt: this.#now(),
        pid: started.pid,
        ...data,
        ...(pidStarted !== undefined && { pidStarted }),
      });
      this.#emit('STARTED', record);
    } catch (error) {
      const message = `failed to start process: ${(error as Error).message}`;
      if (entry.running) {
        // the process runs, but its record could not be saved
        entry.running.kill();
        await entry.ended;
      } else {
        await log?.close();
        this.#startFailed(entry, message);
      }
      throw new SupervisorError(error instanceof SupervisorError ? error.code : 'FailedPrecondition', message, { cause: error });
    }
  }

  #openLog({ id, logPath }: ContainerRecord): LogFile {
    return new LogFile(logPath, (error) =>
      this.#services.log.error({ error: error.message, container: id }, "cannot write a container's log"),
    );
  }

  /** Copies the output of a running container to its log, and waits for its exit. */
  #follow(
    entry: Entry,
    { process: group, cgroup, log }: Pick<RunningContainer, 'cgroup' | 'log'> & { readonly process: ContainerProcess },
  ): void {
    const { host, launcher } = this.#services;
    const sweep = () =>
      launcher
        .sweep(entry.record)
        .catch((error: unknown) => this.#services.log.error({ error: String(error) }, 'cannot look for stray processes'));
    const running = new RunningContainer({ group, log, cgroup, clock: host.clock, sweep });
    entry.running = running;
    entry.ended = running.ended.then((outcome) => this.#ended(entry, outcome));
  }

  #startFailed(entry: Entry, message: string): void {
    const now = this.#now();
    const exit = { startedAt: now, finishedAt: now, exitCode: startErrorExitCode, reason: 'StartError', message };
    this.#save(entry, { ...entry.record, state: 'EXITED', ...exit });
    this.#emit('STOPPED', entry.record);
  }

  /**
   * Starts another process in a running container, with the container's environment, user, namespaces and limits.
   * @throws SupervisorError if the container is not running or the command cannot be started
   */
  async exec(id: string, command: ExecCommand): Promise<ContainerProcess> {
    const { record, running } = this.#entry(id);
    if (!running || record.state !== 'RUNNING') throw new SupervisorError('FailedPrecondition', `container ${id} is not running`);
    if (command.command.length === 0) throw new SupervisorError('InvalidArgument', 'no command specified');
    const group = await this.#services.launcher.exec(this.#inSandbox(record), running.group, { ...command, cgroup: running.cgroup });
    running.execs.add(group);
    void group.exited.then(() => running.execs.delete(group));
    if (this.#entries.get(id)?.record.state !== 'RUNNING') group.kill();
    return group;
  }

  /** Returns a running container. @throws SupervisorError `FailedPrecondition` if the container is not running */
  running(id: string): RunningContainer {
    const { running, record } = this.#entry(id);
    if (!running || record.state !== 'RUNNING') throw new SupervisorError('FailedPrecondition', `container ${id} is not running`);
    return running;
  }

  /** Sends the stop signal, and SIGKILL after the grace period. Resolves when the container has exited, or immediately if it does not exist. */
  async stop(id: string, graceMs: number): Promise<void> {
    const entry = this.#entries.get(id);
    if (!entry) return;
    await entry.starting;
    const { running, ended, record } = entry;
    if (!running) return;
    if (graceMs > 0) {
      running.group.signal(signalNumber(record.config.stopSignal ?? 'SIGTERM'));
      const stop = new AbortController();
      await Promise.race([ended, this.#services.host.clock.sleep(graceMs, stop.signal).catch(() => {})]);
      stop.abort();
    }
    if (entry.running) running.kill();
    await ended;
  }

  async remove(id: string): Promise<void> {
    await this.stop(id, 0);
    const entry = this.#entries.get(id);
    if (!entry) return;
    await entry.cleaned;
    await this.#services.launcher.removed(entry.record);
    if (this.#entries.get(id) !== entry) return; // another call removed it in the meantime
    this.#services.store.removeContainer(entry.record);
    this.#entries.delete(id);
    const names = this.#bySandbox.get(entry.record.sandboxId);
    if (names?.get(nameOf(entry.record.config)) === id) names.delete(nameOf(entry.record.config));
    if (names?.size === 0) this.#bySandbox.delete(entry.record.sandboxId);
    this.#emit('DELETED', entry.record);
  }

  /** Names the parent of the control groups of a new sandbox if the kubelet names none and that of root does not belong to this process. */
  withCgroupParent(id: string, config: PodSandboxConfig): PodSandboxConfig {
    const { linux } = config;
    const { cgroups } = this.#services;
    if (cgroups === undefined || (linux.cgroupParent ?? '') !== '') return config;
    return { ...config, linux: { ...linux, cgroupParent: cgroups.below(ownParent(id)) } };
  }

  /** Prepares what the containers of a new sandbox will share. */
  sandboxCreated(sandbox: SandboxRecord): void {
    this.#services.launcher.sandboxCreated(sandbox);
  }

  /** Removes what the containers of a sandbox share. Called when no process runs or will run in the sandbox. */
  async sandboxStopped(sandbox: SandboxRecord): Promise<void> {
    await Promise.all([...(this.#bySandbox.get(sandbox.id)?.values() ?? [])].map((id) => this.#entries.get(id)?.cleaned));
    await this.#services.launcher.sandboxStopped(sandbox);
    const { cgroups } = this.#services;
    cgroups?.removeEmpty(cgroups.below(ownParent(sandbox.id)));
  }

  /** Removes the empty parent cgroups of sandboxes. Called at shutdown, when no container runs. */
  removeCgroupParents(sandboxes: Iterable<SandboxRecord>): void {
    const { cgroups } = this.#services;
    for (const { config } of sandboxes) {
      const names = (config.linux.cgroupParent ?? '').split('/').filter((part) => part !== '');
      for (let depth = names.length; depth > 0; depth--) cgroups?.removeEmpty(names.slice(0, depth).join('/'));
    }
  }

  update(id: string, resources: LinuxResources): void {
    const entry = this.#entry(id);
    try {
      entry.running?.cgroup?.apply(resources);
    } catch (cause) {
      throw new SupervisorError('FailedPrecondition', `cannot change the limits of container ${id}: ${(cause as Error).message}`, {
        cause,
      });
    }
    const { linux } = entry.record.config;
    this.#save(entry, {
      ...entry.record,
      config: { ...entry.record.config, linux: { ...linux, resources: { ...linux.resources, ...resources } } },
    });
  }

  async reopenLog(id: string): Promise<void> {
    await this.running(id).log.reopen();
  }

  /** Returns the stats of those of the given containers that run. */
  async stats(ids: readonly string[]): Promise<readonly ContainerStats[]> {
    const containers = ids.map((id) => ({ id, running: this.#entry(id).running }));
    return readContainerStats(
      containers.flatMap(({ id, running }) => (running ? [{ id, running }] : [])),
      this.#now(),
    );
  }

  async #ended(entry: Entry, { exitCode, outOfMemory, finishedAt }: ExitResult): Promise<void> {
    const { running } = entry;
    delete entry.running;
    const { pid: _, pidStarted: __, ...rest } = entry.record;
    const record: ContainerRecord = {
      ...rest,
      state: 'EXITED',
      finishedAt,
      exitCode: exitCode ?? unknownExitCode,
      reason: exitCode === undefined ? 'Unknown' : outOfMemory ? 'OOMKilled' : exitCode === 0 ? 'Completed' : 'Error',
    };
    try {
      this.#save(entry, record);
    } catch (error) {
      entry.record = record; // STOPPED is emitted even if the disk is full
      this.#services.log.error({ error: String(error), container: record.id }, 'cannot save the exit of a container');
    }
    this.#emit('STOPPED', entry.record);
    const logFailure = (error: unknown) =>
      this.#services.log.warn(
        { error: String(error), container: record.id },
        'cannot remove the control group or stray processes of a container',
      );
    entry.cleaned = this.#services.launcher.ended(this.#inSandbox(record), running?.cgroup).catch(logFailure);
  }

  #inSandbox(record: ContainerRecord): SandboxContainer {
    return { record, sandbox: this.#services.sandbox(record.sandboxId) };
  }
  #entry(id: string): Entry {
    const entry = this.#entries.get(id);
    if (!entry) throw new SupervisorError('NotFound', `there is no container ${id}`);
    return entry;
  }
  #index(record: ContainerRecord): void {
    const names = this.#bySandbox.get(record.sandboxId) ?? new Map<string, string>();
    names.set(nameOf(record.config), record.id);
    this.#bySandbox.set(record.sandboxId, names);
  }
  #save(entry: Entry, record: ContainerRecord): void {
    entry.record = record;
    this.#services.store.saveContainer(record);
  }
  #emit(type: RuntimeEvent['type'], { id, sandboxId }: ContainerRecord): void {
    this.#services.emit({ type, sandboxId, containerId: id, at: this.#now() });
  }
  #now(): number {
    return this.#services.host.clock.now();
  }
}

/** The exit code that containerd reports if it is not known. */
const unknownExitCode = 255;
/** The exit code that runtimes report for a container that could not be started. */
const startErrorExitCode = 128;

const nameOf = ({ metadata }: ContainerConfig) => `${metadata.name}/${metadata.attempt}`;

/** Returns the cgroup parent of a sandbox if the kubelet names none. */
const ownParent = (sandboxId: string) => `oarlock/${sandboxId}`;

/** Returns the path of a container's cgroup, below the root of the hierarchies. */
export function cgroupPath({ sandbox, record: { id } }: SandboxContainer): string {
  const parent = (sandbox.config.linux.cgroupParent ?? '')
    .split('/')
    .filter((part) => part !== '')
    .join('/');
  return `${parent === '' ? ownParent(sandbox.id) : parent}/${id}`;
}
