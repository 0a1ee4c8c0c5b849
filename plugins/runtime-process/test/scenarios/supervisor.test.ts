import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, watch } from 'node:fs';
import { mkdtemp, readFile, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { systemClock } from '@oarlock/primitives/clock';
import { silentLogger } from '@oarlock/primitives/logger';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Runtime } from '@oarlock/spi/runtime';
import { loaderFlags, programPath } from '@oarlock/primitives/os/bundled-program';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { startTime } from '@oarlock/process-supervisor/host/process-table';
import plugin from '../../src/plugin.ts';
import { ProcessRuntime, type ProcessRuntimeConfig } from '../../src/process-runtime.ts';
import { protocolVersion } from '@oarlock/process-supervisor/protocol/supervisor-protocol';
import { takeLock } from '@oarlock/process-supervisor/supervisor/generation-lock';
import { ended, podConfig, startPod } from '../support/pod.ts';

let dataDir = '';
const drivers: ProcessRuntime[] = [];
beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'process-supervisor-'));
});
afterEach(async () => {
  for (const driver of drivers.splice(0)) await driver.stop();
  await (await open({ keepPods: false, stopGraceSeconds: 0 })).stop();
  drivers.length = 0;
  await rm(dataDir, { recursive: true, force: true });
});

async function open(config: Partial<ProcessRuntimeConfig> = {}, directory = dataDir): Promise<ProcessRuntime> {
  const driver = new ProcessRuntime(
    {
      keepPods: true,
      stopGraceSeconds: 2,
      nice: 0,
      cgroups: false,
      namespaces: false,
      isolation: 'auto',
      hiddenPaths: [],
      idleSeconds: 30,
      ...config,
    },
    undefined,
    { clock: systemClock, log: silentLogger, dataDir: directory },
  );
  await driver.start();
  drivers.push(driver);
  return driver;
}
const isAlive = (pid: number) => startTime(pid) !== undefined;
const gone = (pid: number) => vi.waitFor(() => expect(isAlive(pid)).toBe(false), { timeout: 120_000 });
const holder = async () =>
  (
    JSON.parse(
      await readFile(
        join(
          dataDir,
          (await readdir(dataDir))
            .filter((name) => name.startsWith('lock.'))
            .sort()
            .at(-1) ?? '',
        ),
        'utf8',
      ),
    ) as { pid: number }
  ).pid;
const record = async (sandbox: string, container: string) =>
  JSON.parse(await readFile(join(dataDir, 'pods', sandbox, `${container}.json`), 'utf8')) as { pid: number };

describe('the supervisor', () => {
  it('starts with the first pod, is private, and is shared by drivers that start at once', async () => {
    const two = await Promise.all([open(), open()]);
    expect(existsSync(join(dataDir, 'supervisor.sock'))).toBe(false);
    expect(await two[0].listPodSandbox()).toEqual([]);
    await two[0].stopContainer('f'.repeat(64), 0);
    await expect(two[0].containerStatus('f'.repeat(64))).rejects.toMatchObject({ code: 'NotFound' });
    expect(existsSync(join(dataDir, 'supervisor.sock'))).toBe(false);
    const pods = await Promise.all([0, 1, 0, 1].map((which) => two[which]?.runPodSandbox(podConfig(dataDir), '')));
    expect((await two[0].listPodSandbox()).map(({ id }) => id).sort()).toEqual([...pods].sort());
    expect((await two[1].listPodSandbox()).map(({ id }) => id).sort()).toEqual([...pods].sort());
    expect((await stat(join(dataDir, 'supervisor.sock'))).mode & 0o777).toBe(0o600);
    expect((await stat(dataDir)).mode & 0o777).toBe(0o700);
    expect((await stat(join(dataDir, 'pods', pods[0] ?? '', 'sandbox.json'))).mode & 0o777).toBe(0o600);
  });

  it('keeps pods running when the driver is killed, and the next driver finds them', async () => {
    const program = fileURLToPath(new URL('../support/crashing-driver.mjs', import.meta.url));
    const child = spawn(
      process.execPath,
      [
        ...loaderFlags(programPath('@oarlock/runtime-process/process-runtime', import.meta.url)),
        program,
        dataDir,
        'trap "echo told; exit 7" TERM; echo up; while :; do sleep 3600 & wait $!; done',
      ],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    );
    const [line] = (await once(child.stdout, 'data')) as [Buffer];
    const [sandbox = '', container = ''] = line.toString().trim().split(' ');
    const exited = once(child, 'exit');
    child.kill('SIGKILL');
    await exited;
    const { pid } = await record(sandbox, container);
    expect(isAlive(pid)).toBe(true);

    const driver = await open();
    expect(await driver.listPodSandbox()).toMatchObject([{ id: sandbox, state: 'READY' }]);
    expect(await driver.containerStatus(container)).toMatchObject({ state: 'RUNNING' });
    expect(isAlive(pid)).toBe(true);
    await vi.waitFor(async () => expect(await readFile(join(dataDir, 'logs/c/0.log'), 'utf8')).toContain('stdout F up'), {
      timeout: 120_000,
      interval: 20,
    });
    await driver.stopContainer(container, 10);
    expect(await driver.containerStatus(container)).toMatchObject({ state: 'EXITED', exitCode: 7 });
    expect(await readFile(join(dataDir, 'logs/c/0.log'), 'utf8')).toContain('stdout F told');
  });

  it('ends its containers when it is killed; the driver reconnects and emits resync', async () => {
    const driver = await open();
    const { sandbox, container } = await startPod(driver, dataDir, ['/bin/sh', '-c', 'setsid sleep 3600 & sleep 3600']);
    const before = await record(sandbox, container);
    const stop = new AbortController();
    const items = driver.events(stop.signal)[Symbol.asyncIterator]();
    expect((await items.next()).value).toBe('resync');
    process.kill(await holder(), 'SIGKILL');
    expect((await items.next()).value).toBe('resync');
    stop.abort();
    expect(await driver.containerStatus(container)).toMatchObject({
      state: 'EXITED',
      exitCode: 137,
      reason: 'Error',
      message: expect.stringContaining('supervisor'),
    });
    expect(await driver.podSandboxStatus(sandbox)).toMatchObject({ state: 'READY' });
    await gone(before.pid);
    const again = await startPod(driver, dataDir, ['/bin/sleep', '3600']);
    expect(await driver.containerStatus(again.container)).toMatchObject({ state: 'RUNNING' });
  });

  it('ends with its pods when the driver stops, with a grace period, and stays with keepPods', async () => {
    const staying = await open({ keepPods: true });
    const first = await startPod(staying, dataDir, [
      '/bin/sh',
      '-c',
      'trap "exit 3" TERM; echo up; while :; do sleep 3600 & wait $!; done',
    ]);
    const { pid } = await record(first.sandbox, first.container);
    const { logPath } = await staying.containerStatus(first.container);
    await vi.waitFor(async () => expect(await readFile(logPath, 'utf8')).toContain('up'), { timeout: 120_000, interval: 20 });
    await staying.stop();
    expect(isAlive(pid)).toBe(true);
    const supervisor = await holder();
    await (await open({ keepPods: false })).stop();
    expect(isAlive(pid)).toBe(false);
    await gone(supervisor);
    const next = await open();
    expect(await next.containerStatus(first.container)).toMatchObject({ state: 'EXITED', exitCode: 3 });
    expect(await next.podSandboxStatus(first.sandbox)).toMatchObject({ state: 'NOTREADY' });
  });

  it('ends when no container runs and no client is connected', async () => {
    const driver = await open({ idleSeconds: 0.1 });
    const { container } = await startPod(driver, dataDir, ['/bin/true']);
    await ended(driver, container);
    const supervisor = await holder();
    expect(isAlive(supervisor)).toBe(true);
    await driver.stop();
    await gone(supervisor);
    expect(await (await open()).containerStatus(container)).toMatchObject({ state: 'EXITED', exitCode: 0 });
  });

  it('kills daemons of a container that ends', async () => {
    const driver = await open();
    const { sandbox, container } = await startPod(driver, dataDir, [
      '/bin/sh',
      '-c',
      `setsid sh -c 'echo $$ > ${dataDir}/daemon; exec sleep 3600' & wait; sleep 3600`,
    ]);
    await new Promise<void>((resolve) => {
      const watcher = watch(dataDir, (_, name) => {
        if (name === 'daemon') {
          watcher.close();
          resolve();
        }
      });
      if (existsSync(join(dataDir, 'daemon'))) {
        watcher.close();
        resolve();
      }
    });
    await vi.waitFor(async () => expect(await readFile(join(dataDir, 'daemon'), 'utf8')).toMatch(/\d/), { timeout: 120_000, interval: 20 });
    const daemon = Number(await readFile(join(dataDir, 'daemon'), 'utf8'));
    expect(isAlive(daemon)).toBe(true);
    await driver.stopContainer(container, 0);
    await gone(daemon);
    await driver.removePodSandbox(sandbox);
    expect(await readdir(join(dataDir, 'pods'))).toEqual([]);
  });

  it('kills an exec whose caller disconnects or does not read its output', async () => {
    const driver = await open();
    const { container } = await startPod(driver, dataDir, ['/bin/sleep', '3600']);
    const stop = new AbortController();
    const stuck = new Writable({
      highWaterMark: 1,
      write() {
        stop.abort();
      },
    });
    const pidFile = join(dataDir, 'exec');
    await expect(
      driver.exec(
        container,
        ['/bin/sh', '-c', `echo $$ > ${pidFile}; exec cat /dev/zero`],
        { tty: false, stdout: stuck },
        { signal: stop.signal },
      ),
    ).rejects.toMatchObject({ name: 'AbortError' });
    await gone(Number(await readFile(pidFile, 'utf8')));
    const silent = driver
      .exec(container, ['/bin/sh', '-c', `echo $$ > ${pidFile}2; exec sleep 3600`], { tty: false })
      .catch((error: unknown) => error);
    await vi.waitFor(async () => expect(await readFile(`${pidFile}2`, 'utf8')).toMatch(/\d/), { timeout: 120_000, interval: 20 });
    await driver.stopContainer(container, 0);
    expect(await silent).toBe(137);
    await gone(Number(await readFile(`${pidFile}2`, 'utf8')));
  });

  it('is reachable in a directory whose path is too long for a socket', async () => {
    const directory = join(dataDir, 'x'.repeat(60), 'y'.repeat(60));
    const driver = await open({}, directory);
    const { container } = await startPod(driver, dataDir, ['/bin/sh', '-c', 'exit 4']);
    expect(await ended(driver, container)).toMatchObject({ exitCode: 4 });
    drivers.splice(drivers.indexOf(driver), 1);
    await driver.stop();
    const last = await open({ keepPods: false }, directory);
    drivers.splice(drivers.indexOf(last), 1);
    await last.stop();
  });

  it('rejects another protocol version and disconnects invalid clients', async () => {
    await (await open()).runPodSandbox(podConfig(dataDir), '');
    const talk = async (text: string) => {
      const socket = connect(join(dataDir, 'supervisor.sock'));
      socket.on('error', () => {});
      socket.write(text);
      let answer = '';
      socket.on('data', (chunk: Buffer) => {
        answer += chunk.toString();
      });
      await once(socket, 'close');
      return answer;
    };
    expect(await talk('{"protocol":99,"role":"control"}\n')).toContain(`uses protocol version ${protocolVersion}`);
    expect(await talk('GET / HTTP/1.1\r\n\r\n')).toBe('');
    expect(await talk(`{"protocol":${protocolVersion},"role":"control"}\nnonsense\n`)).toContain('welcome');
    const unknown = connect(join(dataDir, 'supervisor.sock'));
    unknown.write(`{"protocol":${protocolVersion},"role":"control"}\n{"id":1,"call":"constructor","args":{}}\n`);
    let received = '';
    for await (const chunk of unknown) {
      received += String(chunk);
      if (received.includes('"id":1')) break;
    }
    expect(received).toContain('Unsupported');
  });

  it('removes a pod with truncated files and keeps the others', async () => {
    const driver = await open();
    const { sandbox } = await startPod(driver, dataDir, ['/bin/true']);
    const kept = await driver.runPodSandbox(podConfig(dataDir), '');
    await driver.stop();
    process.kill(await holder(), 'SIGKILL');
    await writeFile(join(dataDir, 'pods', sandbox, 'sandbox.json'), '{"id":');
    const next = await open();
    expect((await next.listPodSandbox()).map(({ id }) => id)).toEqual([kept]);
    expect(await readFile(join(dataDir, 'supervisor.log'), 'utf8')).toContain(sandbox);
  });
});

it('takeLock has one holder, and succeeds after the holder has died', async () => {
  expect(takeLock(dataDir)).toBe(true);
  expect(takeLock(dataDir)).toBe(false);
  await writeFile(join(dataDir, 'lock.1'), JSON.stringify({ pid: process.pid, started: 'another time', boot: 'x' }));
  expect(takeLock(dataDir)).toBe(true);
  expect((await readdir(dataDir)).filter((name) => name.includes('lock'))).toEqual(['lock.2']);
  await writeFile(join(dataDir, 'lock.2'), '');
  expect(takeLock(dataDir)).toBe(true);
  await rm(join(dataDir, 'lock.3'));
});

it('the plugin supports only the host image, needs no network and has a strict config', async () => {
  const host = new PluginHost({ dataDir }).add({ plugin, config: { cgroups: false, namespaces: false } });
  await host.start();
  const driver = host.get(Runtime).get('runtime-process');
  expect(driver?.traits).toEqual({ invokesCni: false, images: false, survivesRestart: true, networkNamespaces: false });
  await expect(driver?.pullImage('nginx:1.29', undefined, undefined)).rejects.toMatchObject({
    code: 'Unsupported',
    message: expect.stringContaining('runtime-containerd'),
  });
  expect(await driver?.pullImage('host', undefined, undefined)).toBe('host');
  expect(await driver?.imageStatus('docker.io/library/host:latest')).toMatchObject({ id: 'host' });
  const where = { namespaces: { network: 'POD', pid: 'POD', ipc: 'POD' } } as const;
  const pod = await driver?.runPodSandbox(
    { ...podConfig(dataDir, { annotations: { 'oarlock.dev/pod-ips': '127.128.0.7' } }), linux: { security: where } },
    '',
  );
  expect(await driver?.podSandboxStatus(pod ?? '')).toMatchObject({ state: 'READY', ips: ['127.128.0.7'] });
  await expect(
    driver?.runPodSandbox({ ...podConfig(dataDir), linux: { security: where, sysctls: { 'net.core.somaxconn': '1' } } }, ''),
  ).rejects.toMatchObject({ code: 'Unsupported' });
  await host.stop();
  expect(plugin.config.safeParse({ keepPod: true }).success).toBe(false);
  expect(plugin.config.safeParse({ path: 'relative' }).success).toBe(false);
  expect(new PluginHost().add({ plugin }).check()).toEqual([]);
});
