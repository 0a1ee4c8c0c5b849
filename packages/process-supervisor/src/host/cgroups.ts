import { existsSync, mkdirSync, readdirSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { cpuWeight } from '@oarlock/api/component-helpers/cpu-weight';
import type { Clock } from '@oarlock/primitives/clock';
import { cgroupMount, openDelegatedCgroup } from '@oarlock/primitives/os/delegated-cgroup';
import type { LinuxResources } from '@oarlock/spi/runtime';
import { read, tryWrite, valueOf, withDescendants } from './internal/cgroup-files.ts';

export interface CgroupUsage {
  readonly cpuNanos: number;
  readonly workingSetBytes: number;
  readonly rssBytes: number;
}

/** A container's cgroup: one directory with cgroup v2, one directory per controller with cgroup v1. */
export interface Cgroup {
  /** The files to which a process id is written to move the process into the cgroup. */
  readonly entries: readonly string[];
  /** Applies resource limits. @throws the kernel's error, for example for a memory limit below the usage */
  apply(resources: LinuxResources): void;
  usage(): CgroupUsage;
  wasOutOfMemory(): boolean;
  /** Kills all processes in the cgroup. */
  kill(): void;
  /** Resolves when the cgroup is removed. Killed processes take a moment to leave. */
  remove(): Promise<void>;
}

/** The cgroup v1 hierarchies that must exist. */
const requiredControllers = ['memory', 'cpu'] as const;
/** The controllers of cgroup v2 with which containers are limited. */
const delegatedControllers = [...requiredControllers, 'pids', 'cpuset', 'io'] as const;
const probePath = 'oarlock/probe';

/** Creates cgroups, if this process may create them. */
export class CgroupManager {
  readonly version: 1 | 2;
  readonly #root: string;
  /** The cgroup v2 that is delegated to an ordinary user, as a path below the root; empty for root. */
  readonly #delegated: string;
  readonly #clock: Clock;
  private constructor(version: 1 | 2, { root, delegated }: { readonly root: string; readonly delegated: string }, clock: Clock) {
    this.version = version;
    this.#root = root;
    this.#delegated = delegated;
    this.#clock = clock;
  }

  /**
   * Returns undefined if the machine has no cgroups, or if this process may not create any that limit memory and CPU. An ordinary user may do so in a
   * cgroup v2 that is delegated. `membership` is the text of /proc/self/cgroup.
   */
  static open(clock: Clock, root = cgroupMount, membership?: string): CgroupManager | undefined {
    if (process.platform !== 'linux') return undefined;
    const version = existsSync(join(root, 'cgroup.controllers'))
      ? 2
      : requiredControllers.every((controller) => existsSync(join(root, controller, 'cgroup.procs')))
        ? 1
        : undefined;
    if (version === undefined) return undefined;
    const usable = (delegated: string) => {
      const groups = new CgroupManager(version, { root, delegated }, clock);
      return groups.#isUsable() ? groups : undefined;
    };
    const ofRoot = process.getuid?.() === 0 ? usable('') : undefined;
    if (ofRoot !== undefined || version === 1) return ofRoot;
    try {
      const delegated = openDelegatedCgroup({ mount: root, ...(membership !== undefined && { membership }) });
      return delegated === undefined ? undefined : usable(delegated);
    } catch {
      return undefined; // the processes of the cgroup cannot be moved
    }
  }

  /** Returns the path of a cgroup that this process may create. */
  below(path: string): string {
    return this.#delegated === '' ? path : `${this.#delegated}/${path}`;
  }

  #isUsable(): boolean {
    const path = this.below(probePath);
    try {
      this.make(path);
      const limits = this.version === 1 || this.#hasControllers(path);
      this.removeEmpty(path);
      return limits;
    } catch {
      return false; // mounted read-only, as in containers
    }
  }

  /** Creates a cgroup. @throws the file system's error */
  make(path: string): Cgroup {
    if (!/^[\w.:@\\-]+(\/[\w.:@\\-]+)*$/.test(path) || path.split('/').some((part) => part === '.' || part === '..'))
      throw new Error(`not a path of a control group: ${JSON.stringify(path)}`);
    const directories = this.#directories(path);
    for (const directory of directories) mkdirSync(directory, { recursive: true });
    if (this.version === 2) this.#delegate(path);
    const [memory = '', cpu = memory, accounting = cpu] = directories;
    return this.version === 2 ? new CgroupV2(memory, this.#clock) : new CgroupV1({ memory, cpu, accounting }, this.#clock);
  }

  /** Returns an existing cgroup after a restart of the supervisor; undefined if it does not exist. */
  find(path: string): Cgroup | undefined {
    return this.#directories(path).every((directory) => existsSync(directory)) ? this.make(path) : undefined;
  }

  /** Removes a cgroup if it is empty. Ignores those above a delegated cgroup. */
  removeEmpty(path: string): void {
    if (!path.startsWith(this.below(''))) return;
    const directories =
      this.version === 2 ? this.#directories(path) : readdirSync(this.#root).map((hierarchy) => join(this.#root, hierarchy, path));
    for (const directory of directories) {
      try {
        rmdirSync(directory);
      } catch (error) {
        if (!['ENOENT', 'ENOTDIR', 'EBUSY', 'ENOTEMPTY'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
      }
    }
  }

  #directories(path: string): string[] {
    return this.version === 2
      ? [join(this.#root, path)]
      : [...requiredControllers, 'cpuacct']
          .filter((controller) => existsSync(join(this.#root, controller)))
          .map((controller) => join(this.#root, controller, path));
  }

  /**
   * False if an ancestor of a cgroup v2 does not enable a required controller. A cgroup with processes cannot, unless it is the root of the machine: so
   * the root of a container with cgroups of its own.
   */
  #hasControllers(path: string): boolean {
    const enabled = read(join(this.#root, path, 'cgroup.controllers'))
      .trim()
      .split(/\s+/);
    return requiredControllers.every((controller) => enabled.includes(controller));
  }

  /** Enables the controllers in all ancestors of a cgroup v2, because a cgroup has only the controllers that its parent enables. */
  #delegate(path: string): void {
    const parents = path.split('/').map((_, index, parts) => join(this.#root, ...parts.slice(0, index)));
    for (const parent of parents)
      for (const controller of delegatedControllers) tryWrite(join(parent, 'cgroup.subtree_control'), `+${controller}`);
  }
}

abstract class CgroupDirectories implements Cgroup {
  readonly entries: readonly string[];
  readonly #directories: readonly string[];
  readonly #clock: Clock;
  constructor(directories: readonly string[], clock: Clock) {
    this.#directories = [...new Set(directories)];
    this.entries = this.#directories.map((directory) => join(directory, 'cgroup.procs'));
    this.#clock = clock;
  }
  abstract apply(resources: LinuxResources): void;
  abstract usage(): CgroupUsage;
  abstract wasOutOfMemory(): boolean;

  kill(): void {
    for (const directory of withDescendants(this.#directories[0] ?? '')) this.killProcesses(directory);
  }

  protected killProcesses(directory: string): void {
    for (const pid of read(join(directory, 'cgroup.procs'))
      .split('\n')
      .filter((line) => line !== '')
      .map(Number)) {
      try {
        process.kill(pid, 'SIGKILL');
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
      }
    }
  }

  async remove(): Promise<void> {
    // a privileged container may have made cgroups of its own
    for (const directory of this.#directories.flatMap(withDescendants).reverse()) {
      for (let wait = 1; ; wait *= 2) {
        try {
          rmdirSync(directory);
          break;
        } catch (error) {
          const { code } = error as NodeJS.ErrnoException;
          if (code === 'ENOENT') break;
          if (code !== 'EBUSY' || wait > 2000) throw error;
        }
        this.kill();
        await this.#clock.sleep(wait);
      }
    }
  }
}

/** A cgroup v2. */
class CgroupV2 extends CgroupDirectories {
  readonly #directory: string;
  constructor(directory: string, clock: Clock) {
    super([directory], clock);
    this.#directory = directory;
  }
  apply(resources: LinuxResources): void {
    const set = (file: string, value: string) => writeFileSync(join(this.#directory, file), value);
    const {
      memoryLimitBytes: memory,
      memorySwapLimitBytes: memoryAndSwap,
      cpuShares: shares,
      cpuQuota: quota,
      cpuPeriod: period,
      cpusetCpus,
      cpusetMems,
    } = resources;
    if (memory !== undefined) set('memory.max', memory > 0 ? String(memory) : 'max');
    if (memory !== undefined && memoryAndSwap !== undefined && memoryAndSwap >= memory)
      tryWrite(join(this.#directory, 'memory.swap.max'), String(memoryAndSwap - memory));
    if (shares !== undefined && shares > 0) set('cpu.weight', String(cpuWeight(shares)));
    if (quota !== undefined) set('cpu.max', `${quota > 0 ? quota : 'max'} ${period ?? 100_000}`);
    // not delegated to ordinary users as a rule; runtimes report that they do not bind containers to CPUs
    if (cpusetCpus !== undefined && cpusetCpus !== '') tryWrite(join(this.#directory, 'cpuset.cpus'), cpusetCpus);
    if (cpusetMems !== undefined && cpusetMems !== '') tryWrite(join(this.#directory, 'cpuset.mems'), cpusetMems);
    for (const [name, value] of Object.entries(resources.unified ?? {}))
      if (/^[a-z]+(\.[a-z_0-9]+)+$/.test(name)) tryWrite(join(this.#directory, name), value);
  }
  /** Linux 5.14 kills a cgroup with all descendants at once, also processes that it forks meanwhile. */
  override kill(): void {
    const file = join(this.#directory, 'cgroup.kill');
    if (existsSync(file)) tryWrite(file, '1');
    else super.kill();
  }
  usage(): CgroupUsage {
    const memory = Number(read(join(this.#directory, 'memory.current')));
    const stat = read(join(this.#directory, 'memory.stat'));
    return {
      cpuNanos: valueOf(read(join(this.#directory, 'cpu.stat')), 'usage_usec') * 1000,
      workingSetBytes: Math.max(0, memory - valueOf(stat, 'inactive_file')),
      rssBytes: valueOf(stat, 'anon'),
    };
  }
  wasOutOfMemory(): boolean {
    return valueOf(read(join(this.#directory, 'memory.events')), 'oom_kill') > 0;
  }
}

/** A cgroup v1. */
class CgroupV1 extends CgroupDirectories {
  readonly #paths: { readonly memory: string; readonly cpu: string; readonly accounting: string };
  constructor(paths: { readonly memory: string; readonly cpu: string; readonly accounting: string }, clock: Clock) {
    super([paths.memory, paths.cpu, paths.accounting], clock);
    this.#paths = paths;
  }
  apply({
    memoryLimitBytes: memory,
    memorySwapLimitBytes: memoryAndSwap,
    cpuShares: shares,
    cpuQuota: quota,
    cpuPeriod: period,
  }: LinuxResources): void {
    const set = (directory: string, file: string, value: number) => writeFileSync(join(directory, file), String(value));
    if (memory !== undefined) {
      // the limit with swap may never be below the limit without
      const total = memoryAndSwap !== undefined && memoryAndSwap >= memory ? memoryAndSwap : memory;
      tryWrite(join(this.#paths.memory, 'memory.memsw.limit_in_bytes'), '-1');
      set(this.#paths.memory, 'memory.limit_in_bytes', memory > 0 ? memory : -1);
      if (memory > 0) tryWrite(join(this.#paths.memory, 'memory.memsw.limit_in_bytes'), String(total));
    }
    if (shares !== undefined && shares > 0) set(this.#paths.cpu, 'cpu.shares', shares);
    if (period !== undefined && period > 0) set(this.#paths.cpu, 'cpu.cfs_period_us', period);
    if (quota !== undefined) set(this.#paths.cpu, 'cpu.cfs_quota_us', quota > 0 ? quota : -1);
  }
  usage(): CgroupUsage {
    const stat = read(join(this.#paths.memory, 'memory.stat'));
    const memory = Number(read(join(this.#paths.memory, 'memory.usage_in_bytes')));
    return {
      cpuNanos: Number(read(join(this.#paths.accounting, 'cpuacct.usage'))),
      workingSetBytes: Math.max(0, memory - valueOf(stat, 'total_inactive_file')),
      rssBytes: valueOf(stat, 'total_rss'),
    };
  }
  wasOutOfMemory(): boolean {
    return valueOf(read(join(this.#paths.memory, 'memory.oom_control')), 'oom_kill') > 0;
  }
}
