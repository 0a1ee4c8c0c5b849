import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll } from 'vitest';
import { startContainerd, type RunningContainerd } from '../fixtures/containerd.ts';
import { startDocker, type RunningDocker } from '../fixtures/docker.ts';
import { startRegistry } from '../fixtures/registry.ts';
import { buildTestImages } from '../fixtures/test-image.ts';
import { Cleanup } from './cleanup.ts';
import { Cluster, type ClusterOptions } from './cluster.ts';
import { startEtcd, type RunningEtcd } from './etcd.ts';
import { expectNothingLeft, hostState, type HostState } from './host-state.ts';
import { endProcessesBelow } from './programs.ts';

/** On CI every component must be present; elsewhere tests of a missing component are skipped, with the reason in the title. */
export const everythingIsNeeded = process.env['CI'] === 'true';
/** True if tests also run in the combinations and on the runtimes that add no new pair of plugins. They take as long again as all other tests. */
export const everyCombination = process.env['OARLOCK_MATRIX'] === 'all' || process.env['OARLOCK_WRITE_MATRIX'] === '1';

export interface SharedContainerd extends RunningContainerd {
  readonly cniConfDir: string;
}

/** The resources of a test file on this machine: a directory, daemons and clusters. All are removed at the end, and the removal is checked. */
export class Machine {
  readonly #cleanup = new Cleanup();
  readonly #clusters = new Set<Cluster>();
  #base = '';
  #numbers = 0;
  #etcd: Promise<RunningEtcd> | undefined;
  #containerd: Promise<SharedContainerd> | undefined;
  #docker: Promise<RunningDocker> | undefined;
  #registries: Promise<string> | undefined;

  /** Call this at the top of a test file or in a `describe`. */
  static use(): Machine {
    const machine = new Machine();
    let before: HostState;
    beforeAll(async () => {
      before = await hostState();
      machine.#base = await mkdtemp(join(tmpdir(), 'oarlock-e2e-'));
      await chmod(machine.#base, 0o711); // clusters of other users are below this directory
      machine.#cleanup.add('directory', () => rm(machine.#base, { recursive: true, force: true, maxRetries: 5 }));
    });
    afterEach(async ({ task }) => {
      if (task.result?.state !== 'fail') return;
      for (const cluster of machine.#clusters) console.error(await cluster.report());
    });
    afterAll(async () => {
      try {
        await machine.#cleanup.run();
      } finally {
        await endProcessesBelow(machine.#base);
      }
      await expectNothingLeft(before);
    });
    return machine;
  }

  /** Returns a path that does not exist yet. */
  path(name: string): string {
    return join(this.#base, `${name}-${++this.#numbers}`);
  }

  undo(what: string, undo: () => Promise<unknown> | unknown): void {
    this.#cleanup.add(what, undo);
  }

  /** Starts a cluster and waits until it is ready; its logs are printed if a test fails. */
  async cluster(options: Omit<ClusterOptions, 'dir'> & { readonly dir?: string }): Promise<Cluster> {
    const cluster = await this.prepare(options);
    await cluster.up().catch(async (error: Error) => {
      throw new Error(`${error.message}\n${await cluster.report()}`, { cause: error });
    });
    return cluster;
  }

  /** Creates a cluster without starting it. */
  async prepare(options: Omit<ClusterOptions, 'dir'> & { readonly dir?: string }): Promise<Cluster> {
    const cluster = await Cluster.prepare({ ...options, dir: options.dir ?? this.path('cluster') });
    this.#clusters.add(cluster);
    this.#cleanup.add(`cluster ${cluster.dir}`, () => this.dispose(cluster));
    return cluster;
  }

  async dispose(cluster: Cluster): Promise<void> {
    if (this.#clusters.delete(cluster)) await cluster.dispose();
  }

  /** The etcd that all tests of this file share. */
  etcd(): Promise<RunningEtcd> {
    this.#etcd ??= (async () => {
      const etcd = await startEtcd(this.path('etcd'));
      this.#cleanup.add('etcd', () => etcd.stop());
      return etcd;
    })();
    return this.#etcd;
  }

  /** The containerd that all tests of this file share, with the test images. */
  containerd(): Promise<SharedContainerd> {
    this.#containerd ??= (async () => {
      const dir = this.path('containerd');
      const cniConfDir = join(dir, 'cni');
      const containerd = await startContainerd({ dir, cniConfDir });
      this.#cleanup.add('containerd', () => containerd.stop());
      // no spread: the pid of a restarted daemon changes
      return Object.assign(containerd, { cniConfDir });
    })();
    return this.#containerd;
  }

  /** The Docker engine that all tests of this file share, with the test images. */
  docker(): Promise<RunningDocker> {
    this.#docker ??= (async () => {
      const docker = await startDocker({ dir: this.path('docker') });
      this.#cleanup.add('docker', () => docker.stop());
      return docker;
    })();
    return this.#docker;
  }

  /**
   * Starts the registry `oarlock.test` with the test images. Returns the configuration directory by which runtime-oci finds it. `loopback` is the address
   * that the node has for the loopback address of this machine.
   */
  registries(loopback = '127.0.0.1'): Promise<string> {
    this.#registries ??= (async () => {
      const registry = await startRegistry(await buildTestImages());
      this.#cleanup.add('registry', () => registry.stop());
      const directory = this.path('registries');
      await mkdir(join(directory, 'oarlock.test'), { recursive: true });
      await writeFile(join(directory, 'oarlock.test', 'hosts.toml'), `server = "http://${registry.host.replace('127.0.0.1', loopback)}"\n`);
      return directory;
    })();
    return this.#registries;
  }
}
