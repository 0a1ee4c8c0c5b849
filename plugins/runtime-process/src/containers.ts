import { randomBytes } from 'node:crypto';
import { isAbsolute, join } from 'node:path';
import type { Logger } from '@oarlock/kernel/logger';
import type { ContainerConfig, ContainerStats, LinuxResources, RuntimeEvent } from '@oarlock/spi/runtime';
import type { ControlGroup, ControlGroups } from './cgroups.ts';
import { LogFile } from './cri-log.ts';
import { launchOfExec, launchOfStart } from './container-launch.ts';
import { measure } from './container-stats.ts';
import { credentialsOf } from './environment.ts';
import type { ContainerRecord, PodStore } from './pod-store.ts';
import { ProcessGroup, type Machine } from './process-group.ts';
import { startTime } from './process-table.ts';
import { Refusal, type SandboxRecord } from './protocol.ts';
import { RunningContainer } from './running-container.ts';
import { signalNumber } from './signal-number.ts';
import type { StraySweeper } from './stray-sweeper.ts';

export interface Surroundings {
  readonly machine: Machine;
  readonly cgroups: ControlGroups | undefined;
  readonly store: PodStore;
  readonly sweeper: StraySweeper;
  readonly log: Logger;
  /** Before the system's directories on a container's PATH: where this Node is. */
  readonly path: string;
  readonly nice: number;
  emit(event: RuntimeEvent): void;
  sandbox(id: string): SandboxRecord;
}

interface Entry {
  record: ContainerRecord;
  /** While it is being started. */
  starting?: Promise<unknown>;
  running?: RunningContainer;
  /** Resolves when the end is on disk. */
  ended?: Promise<void>;
  /** Resolves when its control group is gone. */
  cleaned?: Promise<void>;
}

/** The containers of one supervisor, from creation to removal. */
export class Containers {
  readonly #around: Surroundings;
  readonly #entries = new Map<string, Entry>();
  /** By sandbox: container by name and attempt. */
  readonly #bySandbox = new Map<string, Map<string, string>>();

  constructor(around: Surroundings) {
    this.#around = around;
  }

  /** Takes over what an earlier supervisor left. Its processes have lost their streams and their parent: they are ended. */
  adopt(records: readonly ContainerRecord[], machineIsNew: boolean): void {
    for (const record of records) {
      this.#index(record);
      const entry: Entry = { record };
      this.#entries.set(record.id, entry);
      if (record.state !== 'RUNNING') continue;
      if (!machineIsNew && record.pid !== undefined && startTime(record.pid) === record.pidStarted) {
        try {
          process.kill(-record.pid, 'SIGKILL');
        } catch (error) {
          if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
        }
      }
      const group = record.cgroup === undefined ? undefined : this.#around.cgroups?.find(record.cgroup);
      group?.kill();
      void group?.remove().catch((error: unknown) => this.#around.log.warn({ error: String(error) }, 'a control group stays behind'));
      this.#around.sweeper
        .sweep(record.id)
        .catch((error: unknown) => this.#around.log.error({ error: String(error) }, 'cannot look for stray processes'));
      this.#save(entry, {
        ...record,
        state: 'EXITED',
        finishedAt: this.#now(),
        exitCode: 137,
        reason: 'Error',
        message: 'the supervisor of this container ended before it',
      });
    }
  }

  get anyRunning(): boolean {
    for (const { running, starting } of this.#entries.values()) if (running || starting) return true;
    return false;
  }

  /** @throws Refusal `NotFound` */
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
      throw new Refusal(
        'AlreadyExists',
        `container ${config.metadata.name}, attempt ${config.metadata.attempt}, of sandbox ${sandbox.id} is there already`,
      );
    if (config.command.length === 0 && config.args.length === 0)
      throw new Refusal('InvalidArgument', 'no command specified: the image "host" has none of its own');
    if (config.stopSignal !== undefined) signalNumber(config.stopSignal);
    if (config.tty && this.#around.machine.tools.script === undefined)
      throw new Refusal('Unsupported', "there are no terminals for process containers here: util-linux's script is not installed");
    for (const { containerPath, hostPath } of config.mounts)
      if (!isAbsolute(containerPath) || !isAbsolute(hostPath))
        throw new Refusal('InvalidArgument', `a mount's paths must be absolute: ${containerPath}, ${hostPath}`);
    credentialsOf(config, this.#around.machine.tools);
    const id = randomBytes(32).toString('hex');
    const record: ContainerRecord = {
      id,
      sandboxId: sandbox.id,
      config,
      state: 'CREATED',
      createdAt: this.#now(),
      logPath: join(sandbox.config.logDirectory, config.logPath),
    };
    this.#around.store.saveContainer(record);
    this.#entries.set(id, { record });
    this.#index(record);
    this.#emit('CREATED', record);
    return id;
  }

  async start(id: string): Promise<void> {
    const entry = this.#entry(id);
    if (entry.starting || entry.record.state !== 'CREATED')
      throw new Refusal('FailedPrecondition', `container ${id} is ${entry.starting ? 'being started' : entry.record.state}`);
    const sandbox = this.#around.sandbox(entry.record.sandboxId);
    if (sandbox.state !== 'READY') throw new Refusal('FailedPrecondition', `sandbox ${sandbox.id} is not ready`);
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
    const { machine, nice, log, sweeper } = this.#around;
    let cgroup: ControlGroup | undefined;
    let file: LogFile | undefined;
    const path = this.#around.cgroups && cgroupPath(sandbox, record);
    try {
      if (path !== undefined) {
        cgroup = this.#around.cgroups?.make(path);
        cgroup?.apply(record.config.linux.resources);
      }
      const { launch, namespaces } = launchOfStart(record, sandbox, this.#around, cgroup?.entries ?? []);
      file = new LogFile(record.logPath, (error) =>
        log.error({ error: error.message, container: record.id }, "cannot write a container's log"),
      );
      const { oomScoreAdj } = record.config.linux.resources;
      const group = await ProcessGroup.start(launch, machine, {
        stdin: record.config.stdin,
        nice,
        ...(oomScoreAdj !== undefined && { oomScoreAdjust: oomScoreAdj }),
      });
      const sweep = () =>
        sweeper.sweep(record.id).catch((error: unknown) => log.error({ error: String(error) }, 'cannot look for stray processes'));
      const running = new RunningContainer({ group, log: file, cgroup, clock: machine.clock, sweep });
      entry.running = running;
      entry.ended = running.ended.then((outcome) => this.#ended(entry, outcome));
      const pidStarted = startTime(group.pid);
      this.#save(entry, {
        ...record,
        state: 'RUNNING',
        startedAt: this.#now(),
        pid: group.pid,
        namespaces,
        ...(pidStarted !== undefined && { pidStarted }),
        ...(path !== undefined && { cgroup: path }),
      });
      this.#emit('STARTED', record);
    } catch (error) {
      const message = `failed to start process: ${(error as Error).message}`;
      if (entry.running) {
        // it runs, but that could not be written down
        entry.running.kill();
        await entry.ended;
      } else {
        await file?.close();
        await cgroup?.remove();
        const now = this.#now();
        this.#save(entry, { ...record, state: 'EXITED', startedAt: now, finishedAt: now, exitCode: 128, reason: 'StartError', message });
        this.#emit('STOPPED', record);
      }
      throw new Refusal(error instanceof Refusal ? error.code : 'FailedPrecondition', message, { cause: error });
    }
  }

  /** A further process beside a running container, with its environment, user, namespaces and limits. @throws Refusal */
  async exec(
    id: string,
    command: readonly string[],
    { tty, stdin }: { readonly tty: boolean; readonly stdin: boolean },
  ): Promise<ProcessGroup> {
    const { record, running } = this.#entry(id);
    if (!running || record.state !== 'RUNNING') throw new Refusal('FailedPrecondition', `container ${id} is not running`);
    if (command.length === 0) throw new Refusal('InvalidArgument', 'no command specified');
    const sandbox = this.#around.sandbox(record.sandboxId);
    const launch = launchOfExec(record, sandbox, this.#around, {
      command,
      tty,
      pid: running.group.pid,
      cgroups: running.cgroup?.entries ?? [],
    });
    const group = await ProcessGroup.start(launch, this.#around.machine, { stdin, nice: this.#around.nice });
    running.beside.add(group);
    void group.exited.then(() => running.beside.delete(group));
    if (this.#entry(id).record.state !== 'RUNNING') group.kill();
    return group;
  }

  /** @throws Refusal `FailedPrecondition` when it does not run */
  running(id: string): RunningContainer {
    const { running, record } = this.#entry(id);
    if (!running || record.state !== 'RUNNING') throw new Refusal('FailedPrecondition', `container ${id} is not running`);
    return running;
  }

  /** Its stop signal, then SIGKILL after the grace. Resolves when it has ended; at once when it is gone. */
  async stop(id: string, graceMs: number): Promise<void> {
    const entry = this.#entries.get(id);
    if (!entry) return;
    await entry.starting;
    const { running, ended, record } = entry;
    if (!running) return;
    if (graceMs > 0) {
      running.group.signal(signalNumber(record.config.stopSignal ?? 'SIGTERM'));
      const stop = new AbortController();
      await Promise.race([ended, this.#around.machine.clock.sleep(graceMs, stop.signal).catch(() => {})]);
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
    if (this.#entries.get(id) !== entry) return; // removed by another caller meanwhile
    this.#around.store.removeContainer(entry.record);
    this.#entries.delete(id);
    const names = this.#bySandbox.get(entry.record.sandboxId);
    if (names?.get(nameOf(entry.record.config)) === id) names.delete(nameOf(entry.record.config));
    if (names?.size === 0) this.#bySandbox.delete(entry.record.sandboxId);
    this.#emit('DELETED', entry.record);
  }

  /** Nothing runs in the sandbox any more, and nothing will: its control group goes after those of its containers. */
  async sandboxStopped(sandboxId: string): Promise<void> {
    await Promise.all([...(this.#bySandbox.get(sandboxId)?.values() ?? [])].map((id) => this.#entries.get(id)?.cleaned));
    this.#around.cgroups?.removeEmpty(ownParent(sandboxId));
  }

  /** Nothing runs any more, and nobody asks for anything: what held the groups of sandboxes goes, as far as it is empty. */
  leave(sandboxes: Iterable<SandboxRecord>): void {
    const { cgroups } = this.#around;
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
      throw new Refusal('FailedPrecondition', `the limits of container ${id} cannot be changed so: ${(cause as Error).message}`, { cause });
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

  /** Of the containers that run. */
  async stats(ids: readonly string[]): Promise<readonly ContainerStats[]> {
    const running = ids.map((id) => ({ id, running: this.#entry(id).running }));
    return measure(
      running.flatMap((one) => (one.running ? [{ id: one.id, running: one.running }] : [])),
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
      entry.record = record; // a full disk does not keep anybody from being told
      this.#around.log.error({ error: String(error), container: record.id }, 'the end of a container could not be written down');
    }
    this.#emit('STOPPED', entry.record);
    const stays = (error: unknown) =>
      this.#around.log.warn({ error: String(error), container: record.id }, 'something of an ended container stays behind');
    entry.cleaned = Promise.resolve(running?.cgroup?.remove()).catch(stays);
    void this.#around.sweeper.sweepSoon(record.id).catch(stays);
  }

  #entry(id: string): Entry {
    const entry = this.#entries.get(id);
    if (!entry) throw new Refusal('NotFound', `there is no container ${id}`);
    return entry;
  }
  #index(record: ContainerRecord): void {
    const names = this.#bySandbox.get(record.sandboxId) ?? new Map<string, string>();
    names.set(nameOf(record.config), record.id);
    this.#bySandbox.set(record.sandboxId, names);
  }
  #save(entry: Entry, record: ContainerRecord): void {
    entry.record = record;
    this.#around.store.saveContainer(record);
  }
  #emit(type: RuntimeEvent['type'], { id, sandboxId }: ContainerRecord): void {
    this.#around.emit({ type, sandboxId, containerId: id, at: this.#now() });
  }
  #now(): number {
    return this.#around.machine.clock.now();
  }
}

const nameOf = ({ metadata }: ContainerConfig) => `${metadata.name}/${metadata.attempt}`;

/** Where the kubelet names no parent. */
const ownParent = (sandboxId: string) => `oarlock/${sandboxId}`;

function cgroupPath(sandbox: SandboxRecord, { id }: ContainerRecord): string {
  const parent = (sandbox.config.linux.cgroupParent ?? '')
    .split('/')
    .filter((part) => part !== '')
    .join('/');
  return `${parent === '' ? ownParent(sandbox.id) : parent}/${id}`;
}
