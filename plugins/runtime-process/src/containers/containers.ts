import { randomBytes } from 'node:crypto';
import { isAbsolute, join } from 'node:path';
import type { Logger } from '@oarlock/primitives/logger';
import type { ContainerConfig, ContainerStats, LinuxResources, RuntimeEvent } from '@oarlock/spi/runtime';
import type { Cgroup, CgroupManager } from '../host/cgroups.ts';
import type { HiddenDirectories, Isolation } from '../isolation/isolation.ts';
import { LogFile } from './internal/cri-log.ts';
import { launchOfExec, launchOfStart } from './internal/container-launch.ts';
import { readContainerStats } from './internal/container-stats.ts';
import { credentialsOf } from './internal/container-environment.ts';
import type { ContainerRecord, PodStore } from './pod-store.ts';
import { ProcessGroup, type HostServices } from './process-group.ts';
import { startTime } from '../host/process-table.ts';
import { SupervisorError, type SandboxRecord } from '../protocol/supervisor-protocol.ts';
import { RunningContainer } from './running-container.ts';
import { signalNumber } from './internal/signal-number.ts';
import type { StrayProcessSweeper } from './stray-process-sweeper.ts';

export interface ContainerServices {
  readonly host: HostServices;
  readonly cgroups: CgroupManager | undefined;
  readonly store: PodStore;
  readonly sweeper: StrayProcessSweeper;
  readonly log: Logger;
  /** Directories that precede the system's on the PATH of containers: the directory of this Node.js. */
  readonly path: string;
  readonly nice: number;
  readonly isolation: Isolation;
  readonly requiresIsolation: boolean;
  readonly hidden: HiddenDirectories;
  emit(event: RuntimeEvent): void;
  sandbox(id: string): SandboxRecord;
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

  /** Adopts the container records of an earlier supervisor. Its processes have lost their streams and their parent, so they are killed. */
  adopt(records: readonly ContainerRecord[], rebooted: boolean): void {
    for (const record of records) {
      this.#index(record);
      const entry: Entry = { record };
      this.#entries.set(record.id, entry);
      if (record.state !== 'RUNNING') continue;
      if (!rebooted && record.pid !== undefined && startTime(record.pid) === record.pidStarted) {
        try {
          process.kill(-record.pid, 'SIGKILL');
        } catch (error) {
          if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
        }
      }
      const group = record.cgroup === undefined ? undefined : this.#services.cgroups?.find(record.cgroup);
      group?.kill();
      void group
        ?.remove()
        .catch((error: unknown) => this.#services.log.warn({ error: String(error) }, 'cannot remove the control group of a container'));
      this.#services.sweeper
        .sweep(record.id)
        .catch((error: unknown) => this.#services.log.error({ error: String(error) }, 'cannot look for stray processes'));
      this.#save(entry, {
        ...record,
        state: 'EXITED',
        finishedAt: this.#now(),
        exitCode: sigkillExitCode,
        reason: 'Error',
        message: 'the supervisor process of this container ended',
      });
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

  create(sandbox: SandboxRecord, config: ContainerConfig): string {
    const names = this.#bySandbox.get(sandbox.id);
    if (names?.has(nameOf(config)))
      throw new SupervisorError(
        'AlreadyExists',
        `container ${config.metadata.name}, attempt ${config.metadata.attempt}, of sandbox ${sandbox.id} already exists`,
      );
    if (config.command.length === 0 && config.args.length === 0)
      throw new SupervisorError('InvalidArgument', 'no command specified: the image "host" has no default command');
    if (config.stopSignal !== undefined) signalNumber(config.stopSignal);
    if (config.tty && this.#services.host.tools.script === undefined)
      throw new SupervisorError('Unsupported', "terminals are not supported for process containers: util-linux's script is not installed");
    for (const { containerPath, hostPath } of config.mounts)
      if (!isAbsolute(containerPath) || !isAbsolute(hostPath))
        throw new SupervisorError('InvalidArgument', `a mount's paths must be absolute: ${containerPath}, ${hostPath}`);
    credentialsOf(config, this.#services.host.tools);
    const id = randomBytes(32).toString('hex');
    const record: ContainerRecord = {
      id,
      sandboxId: sandbox.id,
      config,
      state: 'CREATED',
      createdAt: this.#now(),
      logPath: join(sandbox.config.logDirectory, config.logPath),
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
    const { host, nice, log, sweeper } = this.#services;
    let cgroup: Cgroup | undefined;
    let file: LogFile | undefined;
    const path = this.#services.cgroups && cgroupPath(sandbox, record);
    try {
      if (path !== undefined) {
        cgroup = this.#services.cgroups?.make(path);
        cgroup?.apply(record.config.linux.resources);
      }
      const { launch, namespaces, isolation } = launchOfStart({ record, sandbox, cgroups: cgroup?.entries ?? [] }, this.#services);
      file = new LogFile(record.logPath, (error) =>
        log.error({ error: error.message, container: record.id }, "cannot write a container's log"),
      );
      const { oomScoreAdj } = record.config.linux.resources;
      const group = await ProcessGroup.start(launch, host, {
        stdin: record.config.stdin,
        nice,
        ...(oomScoreAdj !== undefined && { oomScoreAdjust: oomScoreAdj }),
      });
      const sweep = () =>
        sweeper.sweep(record.id).catch((error: unknown) => log.error({ error: String(error) }, 'cannot look for stray processes'));
      const running = new RunningContainer({ group, log: file, cgroup, clock: host.clock, sweep });
      entry.running = running;
      entry.ended = running.ended.then((outcome) => this.#ended(entry, outcome));
      const pidStarted = startTime(group.pid);
      this.#save(entry, {
        ...record,
        state: 'RUNNING',
        startedAt: this.#now(),
        pid: group.pid,
        namespaces,
        ...(isolation && { isolation }),
        ...(pidStarted !== undefined && { pidStarted }),
        ...(path !== undefined && { cgroup: path }),
      });
      this.#emit('STARTED', record);
    } catch (error) {
      const message = `failed to start process: ${(error as Error).message}`;
      if (entry.running) {
        // the process runs, but its record could not be saved
        entry.running.kill();
        await entry.ended;
      } else {
        await file?.close();
        await cgroup?.remove();
        this.#startFailed(entry, message);
      }
      throw new SupervisorError(error instanceof SupervisorError ? error.code : 'FailedPrecondition', message, { cause: error });
    }
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
  async exec(
    id: string,
    command: readonly string[],
    { tty, stdin }: { readonly tty: boolean; readonly stdin: boolean },
  ): Promise<ProcessGroup> {
    const { record, running } = this.#entry(id);
    if (!running || record.state !== 'RUNNING') throw new SupervisorError('FailedPrecondition', `container ${id} is not running`);
    if (command.length === 0) throw new SupervisorError('InvalidArgument', 'no command specified');
    const sandbox = this.#services.sandbox(record.sandboxId);
    const container = { record, sandbox, cgroups: running.cgroup?.entries ?? [] };
    const launch = launchOfExec(container, this.#services, { command, tty, group: running.group });
    const group = await ProcessGroup.start(launch, this.#services.host, { stdin, nice: this.#services.nice });
    running.execs.add(group);
    void group.exited.then(() => running.execs.delete(group));
    if (this.#entry(id).record.state !== 'RUNNING') group.kill();
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
    if (this.#entries.get(id) !== entry) return; // another call removed it in the meantime
    this.#services.store.removeContainer(entry.record);
    this.#entries.delete(id);
    const names = this.#bySandbox.get(entry.record.sandboxId);
    if (names?.get(nameOf(entry.record.config)) === id) names.delete(nameOf(entry.record.config));
    if (names?.size === 0) this.#bySandbox.delete(entry.record.sandboxId);
    this.#emit('DELETED', entry.record);
  }

  /** Removes the cgroup of a sandbox after the cgroups of its containers. Called when no process runs or will run in the sandbox. */
  async sandboxStopped(sandboxId: string): Promise<void> {
    await Promise.all([...(this.#bySandbox.get(sandboxId)?.values() ?? [])].map((id) => this.#entries.get(id)?.cleaned));
    this.#services.cgroups?.removeEmpty(ownParent(sandboxId));
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

  async #ended(
    entry: Entry,
    { exitCode, outOfMemory, finishedAt }: { readonly exitCode: number; readonly outOfMemory: boolean; readonly finishedAt: number },
  ): Promise<void> {
    const { running } = entry;
    delete entry.running;
    const { pid: _, pidStarted: __, ...rest } = entry.record;
    const record: ContainerRecord = {
      ...rest,
      state: 'EXITED',
      finishedAt,
      exitCode,
      reason: outOfMemory ? 'OOMKilled' : exitCode === 0 ? 'Completed' : 'Error',
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
    entry.cleaned = Promise.resolve(running?.cgroup?.remove()).catch(logFailure);
    void this.#services.sweeper.sweepSoon(record.id).catch(logFailure);
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

/** 128 + SIGKILL. */
const sigkillExitCode = 137;
/** The exit code that runtimes report for a container that could not be started. */
const startErrorExitCode = 128;

const nameOf = ({ metadata }: ContainerConfig) => `${metadata.name}/${metadata.attempt}`;

/** Returns the cgroup parent of a sandbox if the kubelet names none. */
const ownParent = (sandboxId: string) => `oarlock/${sandboxId}`;

function cgroupPath(sandbox: SandboxRecord, { id }: ContainerRecord): string {
  const parent = (sandbox.config.linux.cgroupParent ?? '')
    .split('/')
    .filter((part) => part !== '')
    .join('/');
  return `${parent === '' ? ownParent(sandbox.id) : parent}/${id}`;
}
