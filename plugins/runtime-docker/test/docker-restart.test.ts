import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseLog } from '@oarlock/spi/runtime.contract.bench';
import type { ContainerConfig, PodSandboxConfig } from '@oarlock/spi/runtime';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { dockerMissing } from '../../../e2e/fixtures/docker.ts';
import { busyboxImage } from '../../../e2e/fixtures/test-image.ts';
import type { DockerRuntime } from '../src/docker-runtime.ts';
import { DockerBench } from './docker-bench.ts';

const missing = await dockerMissing();

describe.skipIf(missing !== undefined)(`the engine ends under running containers${missing === undefined ? '' : ` (${missing})`}`, () => {
  let bench: DockerBench;
  let driver: DockerRuntime;
  beforeAll(async () => {
    bench = await DockerBench.open();
    driver = await bench.driver();
  }, 300_000);
  afterAll(() => bench.close(), 60_000);

  const sandboxConfig = (name: string): PodSandboxConfig => ({
    metadata: { name, uid: name, namespace: 'restart', attempt: 0 },
    hostname: name,
    logDirectory: join(bench.dir, 'logs', name),
    portMappings: [],
    labels: {},
    annotations: {},
    linux: { security: { namespaces: { network: 'POD', pid: 'CONTAINER', ipc: 'POD' } } },
  });
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
    linux: { resources: {}, security: { namespaces: { network: 'POD', pid: 'CONTAINER', ipc: 'POD' } } },
  });
  const begin = async (name: string, script: string): Promise<string> => {
    const config = sandboxConfig(name);
    const sandbox = await driver.runPodSandbox(config, '');
    const id = await driver.createContainer(sandbox, containerConfig(script), config);
    await driver.startContainer(id);
    return id;
  };
  const numbers = async (id: string) => {
    const { logPath } = await driver.containerStatus(id);
    return parseLog((await readFile(logPath, 'utf8')).replace(/[^\n]*$/, '')).map(({ text }) => Number(text));
  };

  it('neither loses nor repeats a line of their logs, whoever of engine and driver is killed', { timeout: 300_000 }, async () => {
    const id = await begin('counts', 'i=0; while [ ! -e /tmp/enough ]; do i=$((i+1)); echo $i; usleep 2000; done; echo $((i+1))');
    const [{ sandboxId }] = [await driver.containerStatus(id)];
    const grown = (past: number) => expect.poll(async () => (await numbers(id)).length, { timeout: 120_000 }).toBeGreaterThan(past);
    await grown(20);
    const stop = new AbortController();
    const live = (async () => {
      let resyncs = 0;
      for await (const item of driver.events(stop.signal)) if (item === 'resync' && ++resyncs === 2) return;
    })();
    await bench.docker.kill9();
    await bench.docker.restart();
    await live;
    stop.abort();
    expect((await driver.containerStatus(id)).state).toBe('RUNNING');
    expect((await driver.podSandboxStatus(sandboxId)).state).toBe('READY');
    await grown((await numbers(id)).length);
    driver = await bench.driver();
    await grown((await numbers(id)).length);
    expect((await driver.execSync(id, ['touch', '/tmp/enough'], 10)).exitCode).toBe(0);
    await expect.poll(async () => (await driver.containerStatus(id)).state, { timeout: 120_000 }).toBe('EXITED');
    const seen = await numbers(id);
    expect(seen).toEqual(Array.from(seen, (_, index) => index + 1));
    await driver.removePodSandbox(sandboxId);
    expect(bench.network.attached.size).toBe(0);
  });
});
