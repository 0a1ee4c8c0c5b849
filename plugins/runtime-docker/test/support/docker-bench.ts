import { mkdtemp, readdir, rm, rmdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '@oarlock/primitives/clock';
import { silentLogger } from '@oarlock/primitives/logger';
import { startDocker, type DockerOptions, type RunningDocker } from '../../../../e2e/fixtures/docker.ts';
import { DockerRuntime } from '../../src/docker-runtime.ts';
import { TestNetwork } from './test-network.ts';

export const cgroupParent = '/oarlock-docker-contract';

/** A dockerd of the test, and drivers on it. */
export class DockerBench {
  readonly dir: string;
  readonly docker: RunningDocker;
  readonly network = new TestNetwork();
  #driver: DockerRuntime | undefined;

  private constructor(dir: string, docker: RunningDocker) {
    this.dir = dir;
    this.docker = docker;
  }
  static async open(options: Omit<DockerOptions, 'dir'> = {}): Promise<DockerBench> {
    const dir = await mkdtemp(join(tmpdir(), 'oarlock-docker-'));
    return new DockerBench(dir, await startDocker({ dir, ...options }));
  }

  /** Stops the current driver, as the end of its process would, and starts a new one. */
  async driver(): Promise<DockerRuntime> {
    await this.#driver?.stop();
    this.#driver = new DockerRuntime({ socket: this.docker.socket, requestTimeoutSeconds: 60, imagePullTimeoutSeconds: 60 }, this.network, {
      clock: systemClock,
      log: silentLogger,
      dataDir: join(this.dir, 'data'),
    });
    await this.#driver.start(AbortSignal.timeout(20_000));
    return this.#driver;
  }

  async close(): Promise<void> {
    await this.#driver?.stop();
    await this.docker.stop();
    // the engine leaves the parent cgroups of its containers; they do not exist in every hierarchy
    for (const hierarchy of ['', ...(await readdir('/sys/fs/cgroup'))])
      await rmdir(join('/sys/fs/cgroup', hierarchy, cgroupParent)).catch(() => undefined);
    await rm(this.dir, { recursive: true, force: true });
  }
}
