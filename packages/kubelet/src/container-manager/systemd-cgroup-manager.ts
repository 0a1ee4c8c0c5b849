import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { cpuWeight } from '@oarlock/api/component-helpers/cpu-weight';
import type { CgroupPressure } from '../stats/pressure.ts';
import type { ResourceConfig, CgroupManager } from './cgroupfs-manager.ts';

/** Runs a program. @throws Error with the program's output if the program fails */
export type Run = (file: string, args: readonly string[]) => Promise<unknown>;
const run: Run = (file, args) => promisify(execFile)(file, [...args], { timeout: 30_000 });

/** Returns the nested systemd slices of a cgroup path: `kubepods.slice` and `kubepods-pod1_2.slice` for `/kubepods/pod1-2`. */
function slicesOf(path: string): readonly string[] {
  const names = path
    .split('/')
    .filter((name) => name !== '')
    .map((name) => name.replaceAll('-', '_'));
  return names.map((_, index) => `${names.slice(0, index + 1).join('-')}.slice`);
}

/** Manages cgroups as systemd slices: creates them with systemctl and reads them through the cgroup file system. */
export class SystemdCgroupManager implements CgroupManager {
  readonly #files: CgroupManager & { readonly version: 1 | 2 };
  readonly #run: Run;

  constructor(files: CgroupManager & { readonly version: 1 | 2 }, program: Run = run) {
    this.#files = files;
    this.#run = program;
  }

  async create(path: string, bounds: ResourceConfig): Promise<void> {
    await this.#run('systemctl', ['start', slicesOf(path).at(-1) ?? '']);
    await this.update(path, bounds);
  }

  async update(path: string, { cpuShares, cpuQuota, memory, pids }: ResourceConfig): Promise<void> {
    const second = this.#files.version === 2;
    const amount = (value: number) => (Number.isFinite(value) ? String(value) : 'infinity');
    const properties = [
      ...(cpuShares === undefined ? [] : [second ? `CPUWeight=${cpuWeight(cpuShares)}` : `CPUShares=${cpuShares}`]),
      // in percent of one cpu, rounded up to a whole number as systemd requires
      ...(cpuQuota === undefined ? [] : [`CPUQuota=${Number.isFinite(cpuQuota) ? `${Math.ceil(cpuQuota / 1000)}%` : ''}`]),
      ...(memory === undefined ? [] : [`${second ? 'MemoryMax' : 'MemoryLimit'}=${amount(memory)}`]),
      ...(pids === undefined ? [] : [`TasksMax=${amount(pids)}`]),
    ];
    if (properties.length > 0) await this.#run('systemctl', ['set-property', '--runtime', slicesOf(path).at(-1) ?? '', ...properties]);
  }

  resourceConfig(path: string) {
    return this.#files.resourceConfig(this.#at(path));
  }
  memoryUsage(path: string): Promise<number> {
    return this.#files.memoryUsage(this.#at(path));
  }
  pressure(path: string): Promise<CgroupPressure | undefined> {
    return this.#files.pressure(this.#at(path));
  }
  pids(path: string): Promise<readonly number[]> {
    return this.#files.pids(this.#at(path));
  }

  async children(path: string): Promise<readonly string[]> {
    const own =
      slicesOf(path)
        .at(-1)
        ?.replace(/\.slice$/, '') ?? '';
    const names = await this.#files.children(this.#at(path));
    return names
      .filter((name) => name.startsWith(`${own}-`) && name.endsWith('.slice'))
      .map((name) => name.slice(own.length + 1, -'.slice'.length).replaceAll('_', '-'));
  }

  async destroy(path: string): Promise<boolean> {
    if ((await this.pids(path)).length > 0) return false;
    await this.#run('systemctl', ['stop', slicesOf(path).at(-1) ?? '']);
    return true;
  }

  #at(path: string): string {
    return `/${slicesOf(path).join('/')}`;
  }
}
