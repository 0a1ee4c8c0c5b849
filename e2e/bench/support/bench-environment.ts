import { chmod, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startContainerd, type RunningContainerd } from '../../fixtures/containerd.ts';
import { Cleanup } from '../../harness/cleanup.ts';
import { Cluster, type ClusterOptions } from '../../harness/cluster.ts';
import { startEtcd, type RunningEtcd } from '../../harness/etcd.ts';
import { endProcessesBelow } from '../../harness/programs.ts';

/** The directory, daemons and clusters of one bench, all removed afterwards, also when a signal stops the bench. */
export class BenchEnvironment {
  readonly #cleanup = new Cleanup();
  readonly #base: string;
  #numbers = 0;

  private constructor(base: string) {
    this.#base = base;
  }

  static async with(work: (stage: BenchEnvironment) => Promise<void>): Promise<void> {
    const base = await mkdtemp(join(tmpdir(), 'oarlock-bench-'));
    await chmod(base, 0o711); // clusters of other users are below this directory
    const stage = new BenchEnvironment(base);
    const stopped = new Promise<never>((_, reject) => {
      for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => reject(new Error(`stopped by ${signal}`)));
    });
    try {
      await Promise.race([work(stage), stopped]);
    } finally {
      await stage.#cleanup.run();
      await endProcessesBelow(base);
      await rm(base, { recursive: true, force: true, maxRetries: 5 });
    }
  }

  path(name: string): string {
    return join(this.#base, `${name}-${++this.#numbers}`);
  }

  async cluster(options: Omit<ClusterOptions, 'dir'>): Promise<Cluster> {
    const cluster = await this.prepare(options);
    await cluster.up();
    return cluster;
  }

  async prepare(options: Omit<ClusterOptions, 'dir'>): Promise<Cluster> {
    const cluster = await Cluster.prepare({ ...options, dir: this.path('cluster') });
    this.#cleanup.add('cluster', () => cluster.dispose());
    return cluster;
  }

  async containerd(): Promise<RunningContainerd & { readonly cniConfDir: string }> {
    const dir = this.path('containerd');
    const cniConfDir = join(dir, 'cni');
    const containerd = await startContainerd({ dir, cniConfDir });
    this.#cleanup.add('containerd', () => containerd.stop());
    return Object.assign(containerd, { cniConfDir });
  }

  async etcd(): Promise<RunningEtcd> {
    const etcd = await startEtcd(this.path('etcd'));
    this.#cleanup.add('etcd', () => etcd.stop());
    return etcd;
  }
}

/** Returns the resident memory of a process and its descendants, in MiB. */
export async function residentMiB(pid: number): Promise<number> {
  const kib = /VmRSS:\s+(\d+)/.exec(await readFile(`/proc/${pid}/status`, 'utf8'))?.[1];
  return Number(kib ?? 0) / 1024;
}

/** Returns the memory of a process that no other process shares, in MiB. The text of Node.js is shared by all of its processes. */
export async function privateMiB(pid: number): Promise<number> {
  const rollup = await readFile(`/proc/${pid}/smaps_rollup`, 'utf8');
  return [...rollup.matchAll(/^Private_\w+:\s+(\d+)/gm)].reduce((sum, [, kib]) => sum + Number(kib), 0) / 1024;
}

/** Returns the processor time of a process in seconds. */
export async function cpuSeconds(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) / 100; // utime and stime of proc(5), in hundredths
}
