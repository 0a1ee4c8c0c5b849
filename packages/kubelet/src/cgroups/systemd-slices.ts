import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { cpuWeight, type CgroupBounds, type Cgroups } from './cgroup-tree.ts';

/** Runs a program to its end. @throws Error with what it said, when it fails */
export type Run = (file: string, args: readonly string[]) => Promise<unknown>;
const run: Run = (file, args) => promisify(execFile)(file, [...args], { timeout: 30_000 });

/** `/kubepods/pod1-2` as systemd nests it by dashes: `kubepods.slice`, `kubepods-pod1_2.slice`. */
function slicesOf(path: string): readonly string[] {
  const names = path
    .split('/')
    .filter((name) => name !== '')
    .map((name) => name.replaceAll('-', '_'));
  return names.map((_, index) => `${names.slice(0, index + 1).join('-')}.slice`);
}

/** Cgroups of a machine where systemd makes them all: slices, which are told to it, and read where it makes them. */
export class SystemdSlices implements Cgroups {
  readonly #files: Cgroups & { readonly version: 1 | 2 };
  readonly #run: Run;

  constructor(files: Cgroups & { readonly version: 1 | 2 }, program: Run = run) {
    this.#files = files;
    this.#run = program;
  }

  async make(path: string, bounds: CgroupBounds): Promise<void> {
    await this.#run('systemctl', ['start', slicesOf(path).at(-1) ?? '']);
    await this.bound(path, bounds);
  }

  async bound(path: string, { cpuShares, cpuQuota, memory, pids }: CgroupBounds): Promise<void> {
    const second = this.#files.version === 2;
    const amount = (value: number) => (Number.isFinite(value) ? String(value) : 'infinity');
    const properties = [
      ...(cpuShares === undefined ? [] : [second ? `CPUWeight=${cpuWeight(cpuShares)}` : `CPUShares=${cpuShares}`]),
      // in percent of one cpu; systemd rounds up to whole ones
      ...(cpuQuota === undefined ? [] : [`CPUQuota=${Number.isFinite(cpuQuota) ? `${Math.ceil(cpuQuota / 1000)}%` : ''}`]),
      ...(memory === undefined ? [] : [`${second ? 'MemoryMax' : 'MemoryLimit'}=${amount(memory)}`]),
      ...(pids === undefined ? [] : [`TasksMax=${amount(pids)}`]),
    ];
    if (properties.length > 0) await this.#run('systemctl', ['set-property', '--runtime', slicesOf(path).at(-1) ?? '', ...properties]);
  }

  held(path: string) {
    return this.#files.held(this.#at(path));
  }
  memoryInUse(path: string): Promise<number> {
    return this.#files.memoryInUse(this.#at(path));
  }
  processes(path: string): Promise<readonly number[]> {
    return this.#files.processes(this.#at(path));
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

  async remove(path: string): Promise<boolean> {
    if ((await this.processes(path)).length > 0) return false;
    await this.#run('systemctl', ['stop', slicesOf(path).at(-1) ?? '']);
    return true;
  }

  #at(path: string): string {
    return `/${slicesOf(path).join('/')}`;
  }
}
