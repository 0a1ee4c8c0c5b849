import { constants } from 'node:fs';
import { mkdir, readdir, readFile, rmdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';

/** What bounds one cgroup. Absent: it stays as it is; Infinity: nothing bounds it. */
export interface CgroupBounds {
  /** 2 to 262,144, as version 1 counts them. */
  readonly cpuShares?: number;
  /** Microseconds of cpu in each period of 100 ms. */
  readonly cpuQuota?: number;
  /** Bytes. */
  readonly memory?: number;
  /** Processes and threads. */
  readonly pids?: number;
  /** Bytes of huge pages by their size, as the kernel writes it: `2MB`. */
  readonly hugepages?: Readonly<Record<string, number>>;
}

/** The cgroups of a machine, by paths such as `/kubepods/burstable`. All calls throw the kernel's refusals. */
export interface Cgroups {
  /** Makes it where it is missing, with what is above it. */
  make(path: string, bounds: CgroupBounds): Promise<void>;
  bound(path: string, bounds: CgroupBounds): Promise<void>;
  held(path: string): Promise<Required<Pick<CgroupBounds, 'cpuQuota' | 'memory'>>>;
  /** Memory that cannot be taken back at once. Bytes; 0 when there is no such cgroup. */
  memoryInUse(path: string): Promise<number>;
  /** Of it and of all below it. */
  processes(path: string): Promise<readonly number[]>;
  /** Names of those directly below. */
  children(path: string): Promise<readonly string[]>;
  /** With all below it. False: something still runs in it. */
  remove(path: string): Promise<boolean>;
}

const period = 100_000;
/** Controllers that bound pods. The others runtimes make where they need them. */
const ours = ['cpu', 'memory', 'pids', 'hugetlb'] as const;
type Controller = (typeof ours)[number];
/** Version 1 writes this many bytes and more for no limit: the largest number of whole pages. */
const unlimitedBytes = 2 ** 62;

/** Over what is there, and never another file beside the kernel's. */
const existing = constants.O_WRONLY | constants.O_TRUNC;
const codeOf = (error: unknown) => (error as NodeJS.ErrnoException).code ?? '';
const textOf = (file: string) => readFile(file, 'utf8').catch(() => '');
const numberIn = (text: string, key: string) => Number(new RegExp(`^${key} (\\d+)$`, 'm').exec(text)?.[1] ?? 0);

/**
 * Shares as version 2 weighs them: 2 is 1, 1024 is 100, 262,144 is 10,000.
 * https://kubernetes.io/docs/concepts/architecture/cgroups/
 */
export function cpuWeight(shares: number): number {
  if (shares <= 2) return 1;
  if (shares >= 262_144) return 10_000;
  const l = Math.log2(shares);
  return Math.min(10_000, Math.ceil(10 ** ((l * l + 125 * l) / 612 - 7 / 34)));
}

/** The kernel's cgroups, of either version, through their file system. */
export class CgroupTree implements Cgroups {
  readonly version: 1 | 2;
  readonly #root: string;
  /** Directories of the hierarchies; one with version 2. */
  readonly #hierarchies: readonly string[];
  readonly #passedOn = new Set<string>();

  private constructor(version: 1 | 2, root: string, hierarchies: readonly string[]) {
    this.version = version;
    this.#root = root;
    this.#hierarchies = hierarchies;
  }

  /** Undefined where there are none. */
  static async open(root = '/sys/fs/cgroup'): Promise<CgroupTree | undefined> {
    const names: readonly string[] = await readdir(root).catch(() => []);
    if (names.includes('cgroup.controllers')) return new CgroupTree(2, root, [root]);
    if (!names.includes('cpu') || !names.includes('memory')) return undefined;
    return new CgroupTree(
      1,
      root,
      names.map((name) => join(root, name)),
    );
  }

  async make(path: string, bounds: CgroupBounds): Promise<void> {
    if (this.version === 2) {
      await mkdir(join(this.#root, path), { recursive: true });
      await this.#passOn(dirname(path));
    } else
      for (const controller of ours)
        if (this.#hierarchies.includes(join(this.#root, controller))) await mkdir(join(this.#root, controller, path), { recursive: true });
    await this.bound(path, bounds);
  }

  async bound(path: string, bounds: CgroupBounds): Promise<void> {
    for (const [controller, file, value] of this.version === 2 ? filesOf2(bounds) : filesOf1(bounds))
      await this.#write(this.#file(controller, path, file), value);
  }

  async held(path: string): Promise<Required<Pick<CgroupBounds, 'cpuQuota' | 'memory'>>> {
    const [quota, memory] =
      this.version === 2
        ? [(await textOf(this.#file('cpu', path, 'cpu.max'))).split(' ')[0] ?? '', await textOf(this.#file('memory', path, 'memory.max'))]
        : [await textOf(this.#file('cpu', path, 'cpu.cfs_quota_us')), await textOf(this.#file('memory', path, 'memory.limit_in_bytes'))];
    const bound = (text: string) => (/^\d+\s*$/.test(text) && Number(text) < unlimitedBytes ? Number(text) : Infinity);
    return { cpuQuota: bound(quota), memory: bound(memory) };
  }

  async memoryInUse(path: string): Promise<number> {
    const [all, cache] = this.version === 2 ? ['memory.current', 'inactive_file'] : ['memory.usage_in_bytes', 'total_inactive_file'];
    const [used, stat] = await Promise.all([textOf(this.#file('memory', path, all)), textOf(this.#file('memory', path, 'memory.stat'))]);
    return Math.max(0, Number(used) - numberIn(stat, cache));
  }

  async processes(path: string): Promise<readonly number[]> {
    const found = new Set<number>();
    const look = async (directory: string): Promise<void> => {
      for (const line of (await textOf(join(directory, 'cgroup.procs'))).split('\n')) if (Number(line) > 0) found.add(Number(line));
      for (const name of await below(directory)) await look(join(directory, name));
    };
    await look(this.#file('memory', path, ''));
    return [...found];
  }

  children(path: string): Promise<readonly string[]> {
    return below(this.#file('memory', path, ''));
  }

  async remove(path: string): Promise<boolean> {
    let gone = true;
    // runtimes have made it in every hierarchy
    for (const hierarchy of this.#hierarchies) gone = (await removeTree(join(hierarchy, path))) && gone;
    if (gone) this.#passedOn.delete(path);
    return gone;
  }

  #file(controller: Controller, path: string, file: string): string {
    return this.version === 2 ? join(this.#root, path, file) : join(this.#root, controller, path, file);
  }

  /** A controller that the kernel has not got bounds nothing, as upstream has it. */
  async #write(file: string, value: string): Promise<void> {
    try {
      await writeFile(file, value, { flag: existing });
    } catch (error) {
      if (codeOf(error) !== 'ENOENT')
        throw new Error(`${value} cannot be written to ${file}: ${(error as Error).message}`, { cause: error });
    }
  }

  /** Version 2: a cgroup has the controllers that all above it pass on. @throws Error when cpu or memory are not among them */
  async #passOn(path: string): Promise<void> {
    if (this.#passedOn.has(path)) return;
    if (path !== '/' && path !== '.') await this.#passOn(dirname(path));
    const file = join(this.#root, path, 'cgroup.subtree_control');
    const available = (await textOf(join(this.#root, path, 'cgroup.controllers'))).trim().split(/\s+/);
    const passed = new Set((await textOf(file)).trim().split(/\s+/));
    for (const controller of [...ours, 'cpuset', 'io']) {
      if (passed.has(controller) || !available.includes(controller)) continue;
      try {
        await writeFile(file, `+${controller}`, { flag: existing });
      } catch (cause) {
        if (controller === 'cpu' || controller === 'memory')
          throw new Error(`the cgroup ${path} does not pass on the controller ${controller}: ${(cause as Error).message}`, { cause });
      }
    }
    this.#passedOn.add(path);
  }
}

type Write = readonly [controller: Controller, file: string, value: string];

function filesOf1({ cpuShares, cpuQuota, memory, pids, hugepages = {} }: CgroupBounds): readonly Write[] {
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

function filesOf2({ cpuShares, cpuQuota, memory, pids, hugepages = {} }: CgroupBounds): readonly Write[] {
  const unless = (value: number) => (Number.isFinite(value) ? String(value) : 'max');
  return [
    ...(cpuShares === undefined ? [] : [['cpu', 'cpu.weight', String(cpuWeight(cpuShares))] as const]),
    ...(cpuQuota === undefined ? [] : [['cpu', 'cpu.max', `${unless(cpuQuota)} ${period}`] as const]),
    ...(memory === undefined ? [] : [['memory', 'memory.max', unless(memory)] as const]),
    ...(pids === undefined ? [] : [['pids', 'pids.max', unless(pids)] as const]),
    ...Object.entries(hugepages).map(([size, bytes]) => ['hugetlb', `hugetlb.${size}.max`, unless(bytes)] as const),
  ];
}

async function below(directory: string): Promise<readonly string[]> {
  const entries = await readdir(directory, { withFileTypes: true }).catch(() => []);
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
}

async function removeTree(directory: string): Promise<boolean> {
  let gone = true;
  for (const name of await below(directory)) gone = (await removeTree(join(directory, name))) && gone;
  try {
    await rmdir(directory);
  } catch (error) {
    // what is no cgroup file system has no such directory
    if (['ENOENT', 'ENOTDIR'].includes(codeOf(error))) return gone;
    if (codeOf(error) !== 'EBUSY' && codeOf(error) !== 'ENOTEMPTY') throw error;
    return false;
  }
  return gone;
}
