import { constants } from 'node:fs';
import { mkdir, readdir, readFile, rmdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { cpuWeight } from '@oarlock/api/component-helpers/cpu-weight';
import { cgroupPressure, type CgroupPressure } from '../stats/pressure.ts';

/** The limits of one cgroup. An undefined limit is left unchanged; Infinity means no limit. */
export interface ResourceConfig {
  /** CPU shares from 2 to 262,144, as in cgroup v1. */
  readonly cpuShares?: number;
  /** The CPU quota in microseconds per period of 100 ms. */
  readonly cpuQuota?: number;
  /** The memory limit in bytes. */
  readonly memory?: number;
  /** The maximum number of processes and threads. */
  readonly pids?: number;
  /** Huge page limits in bytes, keyed by the kernel's name of the page size, such as `2MB`. */
  readonly hugepages?: Readonly<Record<string, number>>;
}

/** Manages the cgroups of a machine, addressed by paths such as `/kubepods/burstable`. All methods throw the kernel's errors. */
export interface CgroupManager {
  /** Creates the cgroup and its missing parents, and sets the limits of the cgroup. */
  create(path: string, bounds: ResourceConfig): Promise<void>;
  update(path: string, bounds: ResourceConfig): Promise<void>;
  resourceConfig(path: string): Promise<Required<Pick<ResourceConfig, 'cpuQuota' | 'memory'>>>;
  /** Returns the memory of the cgroup that cannot be reclaimed immediately, in bytes; 0 if the cgroup does not exist. */
  memoryUsage(path: string): Promise<number>;
  /** Returns the pressure stall information of the cgroup; undefined with cgroup v1, which has none. */
  pressure(path: string): Promise<CgroupPressure | undefined>;
  /** Returns the process ids of the cgroup and its descendants. */
  pids(path: string): Promise<readonly number[]>;
  /** Returns the names of the cgroup's direct children. */
  children(path: string): Promise<readonly string[]>;
  /** Removes the cgroup and its descendants. Returns false if a process still runs in one of them. */
  destroy(path: string): Promise<boolean>;
}

const period = 100_000;
/** The cgroup controllers that limit pods. Runtimes create the cgroups of all other controllers. */
const podControllers = ['cpu', 'memory', 'pids', 'hugetlb'] as const;
type Controller = (typeof podControllers)[number];
/** The lowest memory limit that cgroup v1 treats as no limit. The kernel reports the largest number of whole pages. */
const unlimitedBytes = 2 ** 62;

/** Overwrites an existing file and never creates one. */
const overwrite = constants.O_WRONLY | constants.O_TRUNC;
const codeOf = (error: unknown) => (error as NodeJS.ErrnoException).code ?? '';
const textOf = (file: string) => readFile(file, 'utf8').catch(() => '');
const numberIn = (text: string, key: string) => Number(new RegExp(`^${key} (\\d+)$`, 'm').exec(text)?.[1] ?? 0);

/** Manages cgroups v1 or v2 through the cgroup file system. */
export class CgroupfsManager implements CgroupManager {
  readonly version: 1 | 2;
  readonly #root: string;
  /** The mount points of the cgroup hierarchies; exactly one with cgroup v2. */
  readonly #hierarchies: readonly string[];
  readonly #enabledBelow = new Set<string>();

  private constructor(version: 1 | 2, root: string, hierarchies: readonly string[]) {
    this.version = version;
    this.#root = root;
    this.#hierarchies = hierarchies;
  }

  /** Detects the machine's cgroup version. Returns undefined if the machine has no cgroups. */
  static async open(root = '/sys/fs/cgroup'): Promise<CgroupfsManager | undefined> {
    const names: readonly string[] = await readdir(root).catch(() => []);
    if (names.includes('cgroup.controllers')) return new CgroupfsManager(2, root, [root]);
    if (!names.includes('cpu') || !names.includes('memory')) return undefined;
    return new CgroupfsManager(
      1,
      root,
      names.map((name) => join(root, name)),
    );
  }

  async create(path: string, bounds: ResourceConfig): Promise<void> {
    if (this.version === 2) {
      await mkdir(join(this.#root, path), { recursive: true });
      await this.#enableControllers(dirname(path));
    } else {
      const controllers = podControllers.filter((controller) => this.#hierarchies.includes(join(this.#root, controller)));
      await Promise.all(controllers.map((controller) => mkdir(join(this.#root, controller, path), { recursive: true })));
    }
    await this.update(path, bounds);
  }

  async update(path: string, bounds: ResourceConfig): Promise<void> {
    for (const [controller, file, value] of this.version === 2 ? v2Files(bounds) : v1Files(bounds))
      await this.#write(this.#file(controller, path, file), value);
  }

  async resourceConfig(path: string): Promise<Required<Pick<ResourceConfig, 'cpuQuota' | 'memory'>>> {
    const [quota, memory] =
      this.version === 2
        ? [(await textOf(this.#file('cpu', path, 'cpu.max'))).split(' ')[0] ?? '', await textOf(this.#file('memory', path, 'memory.max'))]
        : [await textOf(this.#file('cpu', path, 'cpu.cfs_quota_us')), await textOf(this.#file('memory', path, 'memory.limit_in_bytes'))];
    const bound = (text: string) => (/^\d+\s*$/.test(text) && Number(text) < unlimitedBytes ? Number(text) : Infinity);
    return { cpuQuota: bound(quota), memory: bound(memory) };
  }

  async memoryUsage(path: string): Promise<number> {
    const [all, cache] = this.version === 2 ? ['memory.current', 'inactive_file'] : ['memory.usage_in_bytes', 'total_inactive_file'];
    const [used, stat] = await Promise.all([textOf(this.#file('memory', path, all)), textOf(this.#file('memory', path, 'memory.stat'))]);
    return Math.max(0, Number(used) - numberIn(stat, cache));
  }

  async pressure(path: string): Promise<CgroupPressure | undefined> {
    if (this.version === 1) return undefined;
    const directory = join(this.#root, path);
    const children = (await childNames(directory)).map(async (name) => [name, await cgroupPressure(join(directory, name))] as const);
    return { own: await cgroupPressure(directory), children: new Map(await Promise.all(children)) };
  }

  async pids(path: string): Promise<readonly number[]> {
    const found = new Set<number>();
    const collect = async (directory: string): Promise<void> => {
      for (const line of (await textOf(join(directory, 'cgroup.procs'))).split('\n')) if (Number(line) > 0) found.add(Number(line));
      for (const name of await childNames(directory)) await collect(join(directory, name));
    };
    await collect(this.#file('memory', path, ''));
    return [...found];
  }

  children(path: string): Promise<readonly string[]> {
    return childNames(this.#file('memory', path, ''));
  }

  async destroy(path: string): Promise<boolean> {
    let gone = true;
    // runtimes create the cgroup in every hierarchy
    for (const hierarchy of this.#hierarchies) gone = (await removeTree(join(hierarchy, path))) && gone;
    if (gone) this.#enabledBelow.delete(path);
    return gone;
  }

  #file(controller: Controller, path: string, file: string): string {
    return this.version === 2 ? join(this.#root, path, file) : join(this.#root, controller, path, file);
  }

  /** Writes a limit. As upstream, ignores limits of controllers that the kernel lacks. */
  async #write(file: string, value: string): Promise<void> {
    try {
      await writeFile(file, value, { flag: overwrite });
    } catch (error) {
      if (codeOf(error) !== 'ENOENT')
        throw new Error(`${value} could not be written to ${file}: ${(error as Error).message}`, { cause: error });
    }
  }

  /** Enables the controllers of a cgroup v2 in all of its ancestors. @throws Error if the cpu or memory controller cannot be enabled */
  async #enableControllers(path: string): Promise<void> {
    if (this.#enabledBelow.has(path)) return;
    if (path !== '/' && path !== '.') await this.#enableControllers(dirname(path));
    const file = join(this.#root, path, 'cgroup.subtree_control');
    const available = (await textOf(join(this.#root, path, 'cgroup.controllers'))).trim().split(/\s+/);
    const enabled = new Set((await textOf(file)).trim().split(/\s+/));
    for (const controller of [...podControllers, 'cpuset', 'io']) {
      if (enabled.has(controller) || !available.includes(controller)) continue;
      try {
        await writeFile(file, `+${controller}`, { flag: overwrite });
      } catch (cause) {
        if (controller === 'cpu' || controller === 'memory')
          throw new Error(`the cgroup ${path} does not enable the controller ${controller}: ${(cause as Error).message}`, { cause });
      }
    }
    this.#enabledBelow.add(path);
  }
}

type Write = readonly [controller: Controller, file: string, value: string];

function v1Files({ cpuShares, cpuQuota, memory, pids, hugepages = {} }: ResourceConfig): readonly Write[] {
  const unless = (value: number, none: string) => (Number.isFinite(value) ? String(value) : none);
  return [
    ...(cpuShares === undefined ? [] : [['cpu', 'cpu.shares', String(cpuShares)] as const]),
    ...(cpuQuota === undefined
      ? []
      : ([
          ['cpu', 'cpu.cfs_period_us', String(period)],
          ['cpu', 'cpu.cfs_quota_us', unless(cpuQuota, '-1')],
        ] as const)),
    ...(memory === undefined ? [] : [['memory', 'memory.limit_in_bytes', unless(memory, '-1')] as const]),
    ...(pids === undefined ? [] : [['pids', 'pids.max', unless(pids, 'max')] as const]),
    ...Object.entries(hugepages).map(([size, bytes]) => ['hugetlb', `hugetlb.${size}.limit_in_bytes`, unless(bytes, '-1')] as const),
  ];
}

function v2Files({ cpuShares, cpuQuota, memory, pids, hugepages = {} }: ResourceConfig): readonly Write[] {
  const unless = (value: number) => (Number.isFinite(value) ? String(value) : 'max');
  return [
    ...(cpuShares === undefined ? [] : [['cpu', 'cpu.weight', String(cpuWeight(cpuShares))] as const]),
    ...(cpuQuota === undefined ? [] : [['cpu', 'cpu.max', `${unless(cpuQuota)} ${period}`] as const]),
    ...(memory === undefined ? [] : [['memory', 'memory.max', unless(memory)] as const]),
    ...(pids === undefined ? [] : [['pids', 'pids.max', unless(pids)] as const]),
    ...Object.entries(hugepages).map(([size, bytes]) => ['hugetlb', `hugetlb.${size}.max`, unless(bytes)] as const),
  ];
}

async function childNames(directory: string): Promise<readonly string[]> {
  const entries = await readdir(directory, { withFileTypes: true }).catch(() => []);
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
}

async function removeTree(directory: string): Promise<boolean> {
  let gone = true;
  for (const name of await childNames(directory)) gone = (await removeTree(join(directory, name))) && gone;
  try {
    await rmdir(directory);
  } catch (error) {
    // ENOTDIR: not a cgroup file system
    if (['ENOENT', 'ENOTDIR'].includes(codeOf(error))) return gone;
    if (codeOf(error) !== 'EBUSY' && codeOf(error) !== 'ENOTEMPTY') throw error;
    return false;
  }
  return gone;
}
