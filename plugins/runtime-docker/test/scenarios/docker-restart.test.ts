import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseLog } from '@oarlock/spi/runtime/contract/container-log';
import type { ContainerConfig, PodSandboxConfig } from '@oarlock/spi/runtime';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { dockerMissing } from '../../../../e2e/fixtures/docker.ts';
import { busyboxImage } from '../../../../e2e/fixtures/test-image.ts';
import type { DockerRuntime } from '../../src/docker-runtime.ts';
import { DockerBench } from '../support/docker-bench.ts';

const missing = await dockerMissing();

const because = missing === undefined ? '' : ` (${missing})`;
const security = { namespaces: { network: 'POD', pid: 'CONTAINER', ipc: 'POD' } } as const;

const containerConfig = (script: string): ContainerConfig => ({
  metadata: { name: 'main', attempt: 0 },
  image: { image: busyboxImage },
  command: ['/bin/sh', '-c', script],
  args: [],
  envs: [],
  mounts: [],
  labels: {},
  annotations: {},
  logPath: 'main/0.log',
  stdin: false,
  stdinOnce: false,
  tty: false,
  linux: { resources: {}, security },
});

/** A docker engine and the driver on it. */
class Rig {
  #bench: DockerBench | undefined;
  #driver: DockerRuntime | undefined;

  static use(options: { readonly liveRestore: boolean }): Rig {
    const rig = new Rig();
    beforeAll(async () => {
      rig.#bench = await DockerBench.open(options);
      await rig.restartDriver();
    });
    afterAll(() => rig.#bench?.close(), 60_000);
    return rig;
  }
  get bench(): DockerBench {
    if (!this.#bench) throw new Error('the engine has not been started');
    return this.#bench;
  }
  get driver(): DockerRuntime {
    if (!this.#driver) throw new Error('the driver has not been started');
    return this.#driver;
  }
  async restartDriver(): Promise<void> {
    this.#driver = await this.bench.driver();
  }

  /** Runs a script in a new sandbox. Returns the ids of sandbox and container. */
  async begin(name: string, script: string, attempt = 0): Promise<{ readonly id: string; readonly sandbox: string }> {
    const config: PodSandboxConfig = {
      metadata: { name, uid: name, namespace: 'restart', attempt },
      hostname: name,
      logDirectory: join(this.bench.dir, 'logs', `${name}-${attempt}`),
      portMappings: [],
      labels: {},
      annotations: {},
      linux: { security },
    };
    const sandbox = await this.driver.runPodSandbox(config, '');
    const base = containerConfig(script);
    const id = await this.driver.createContainer(sandbox, { ...base, metadata: { ...base.metadata, attempt } }, config);
    await this.driver.startContainer(id);
    return { id, sandbox };
  }
  /** Returns the complete lines of a container's log, which are numbers. */
  async numbers(id: string): Promise<readonly number[]> {
    const { logPath } = await this.driver.containerStatus(id);
    return parseLog((await readFile(logPath, 'utf8')).replace(/[^\n]*$/, '')).map(({ text }) => Number(text));
  }
  /** Returns the lines that the engine has of a container. What it had read and not yet written when it was killed is lost to everyone. */
  async engineNumbers(id: string): Promise<readonly number[]> {
    const file = join(this.bench.dir, 'root', 'containers', id, `${id}-json.log`);
    const lines = (await readFile(file, 'utf8')).trimEnd().split('\n');
    return lines.map((line) => Number((JSON.parse(line) as { readonly log: string }).log));
  }
  grown(id: string, past: number): Promise<void> {
    return expect.poll(async () => (await this.numbers(id)).length).toBeGreaterThan(past);
  }
  /** Kills the engine with SIGKILL and starts a new one. Resolves when the driver has reconnected. */
  async killEngine(): Promise<void> {
    const stop = new AbortController();
    const live = (async () => {
      let resyncs = 0;
      for await (const item of this.driver.events(stop.signal)) if (item === 'resync' && ++resyncs === 2) return;
    })();
    await this.bench.docker.kill9();
    await this.bench.docker.restart();
    await live;
    stop.abort();
  }
}

describe.skipIf(missing !== undefined)(`engine restart with live-restore${because}`, () => {
  const rig = Rig.use({ liveRestore: true });

  it('neither loses nor repeats log lines of the engine when the engine or the driver is killed', async () => {
    const script = 'i=0; while [ ! -e /tmp/enough ]; do i=$((i+1)); echo $i; usleep 2000; done; echo $((i+1))';
    const { id, sandbox } = await rig.begin('counts', script);
    await rig.grown(id, 20);
    await rig.killEngine();
    expect((await rig.driver.containerStatus(id)).state).toBe('RUNNING');
    expect((await rig.driver.podSandboxStatus(sandbox)).state).toBe('READY');
    await rig.grown(id, (await rig.numbers(id)).length);
    await rig.restartDriver();
    await rig.grown(id, (await rig.numbers(id)).length);
    // the container ends at once, which may kill the command before it exits
    await rig.driver.execSync(id, ['touch', '/tmp/enough'], 10);
    await expect.poll(async () => (await rig.driver.containerStatus(id)).state).toBe('EXITED');
    expect(await rig.numbers(id)).toEqual(await rig.engineNumbers(id));
    await rig.driver.removePodSandbox(sandbox);
    expect(rig.bench.network.attached.size).toBe(0);
  });
});

describe.skipIf(missing !== undefined)(`engine restart without live-restore${because}`, () => {
  const rig = Rig.use({ liveRestore: false });

  it('reports exited containers, keeps their logs and lets the pod restart', async () => {
    const script = 'i=0; while :; do i=$((i+1)); echo $i; usleep 2000; done';
    const { id, sandbox } = await rig.begin('counts', script);
    await rig.grown(id, 20);
    await rig.killEngine();
    const status = await rig.driver.containerStatus(id);
    expect(status).toMatchObject({ state: 'EXITED', reason: 'Error' });
    expect(status.exitCode).not.toBe(0);
    expect((await rig.driver.podSandboxStatus(sandbox)).state).toBe('NOTREADY');
    expect(await rig.numbers(id)).toEqual(await rig.engineNumbers(id));
    await expect(rig.driver.startContainer(id)).rejects.toMatchObject({ code: 'FailedPrecondition' });
    await rig.driver.stopPodSandbox(sandbox);
    const again = await rig.begin('counts', script, 1);
    await rig.grown(again.id, 20);
    for (const one of [sandbox, again.sandbox]) await rig.driver.removePodSandbox(one);
    expect(rig.bench.network.attached.size).toBe(0);
  });
});
