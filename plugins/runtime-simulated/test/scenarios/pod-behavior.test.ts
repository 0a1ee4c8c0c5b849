import type { ContainerConfig, PodSandboxConfig } from '@oarlock/spi/runtime';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { beforeEach, describe, expect, it } from 'vitest';
import { AddressPool } from '../../src/address-pool.ts';
import plugin from '../../src/plugin.ts';
import { SimulatedRuntime } from '../../src/simulated-runtime.ts';

const namespaces = { network: 'NODE', pid: 'CONTAINER', ipc: 'POD' } as const;
const sandboxConfig = (annotations: Record<string, string> = {}, uid = 'u'): PodSandboxConfig => ({
  metadata: { name: 'web', namespace: 'default', uid, attempt: 0 },
  hostname: 'web',
  logDirectory: '',
  portMappings: [],
  labels: { 'io.kubernetes.pod.uid': uid },
  annotations: Object.fromEntries(Object.entries(annotations).map(([key, value]) => [`simulated.oarlock.dev/${key}`, value])),
  linux: { security: { namespaces } },
});
const containerConfig = (command: readonly string[] = [], name = 'app', attempt = 0): ContainerConfig => ({
  metadata: { name, attempt },
  image: { image: 'app' },
  command,
  args: [],
  envs: [{ key: 'A', value: '1' }],
  mounts: [],
  labels: {},
  annotations: {},
  logPath: '',
  stdin: false,
  stdinOnce: false,
  tty: false,
  linux: { resources: {}, security: { namespaces } },
});

describe('SimulatedRuntime', () => {
  let clock: FakeClock;
  let runtime: SimulatedRuntime;
  beforeEach(() => {
    clock = new FakeClock();
    runtime = new SimulatedRuntime(clock, { images: ['app'], startDelayMs: 100, pullDelayMs: 50, missingImages: ['none:1'] });
  });
  const create = async (annotations: Record<string, string> = {}, command: readonly string[] = [], name = 'app', attempt = 0) => {
    const config = sandboxConfig(annotations);
    return runtime.createContainer(await runtime.runPodSandbox(config, ''), containerConfig(command, name, attempt), config);
  };
  const start = async (...args: Parameters<typeof create>) => {
    const id = await create(...args);
    const started = runtime.startContainer(id);
    await clock.advance(100);
    await started;
    return id;
  };
  const state = async (id: string) => {
    const { state: now, exitCode } = await runtime.containerStatus(id);
    return exitCode === undefined ? now : `${now} ${exitCode}`;
  };

  it('starts a container after its delay and runs it as its annotations specify', async () => {
    const id = await create({ 'exit-after': '5s', 'exit-code': '3' });
    const started = runtime.startContainer(id);
    await clock.advance(99);
    expect(await state(id)).toBe('CREATED');
    await clock.advance(1);
    await started;
    expect(await state(id)).toBe('RUNNING');
    await clock.advance(4999);
    expect(await state(id)).toBe('RUNNING');
    await clock.advance(1);
    expect(await state(id)).toBe('EXITED 3');
  });

  it('applies annotations to a single container and to its first attempts', async () => {
    const annotations = { 'exit-after.app': '1s', 'exits.app': '1', 'start-delay': '0s' };
    const ids = [await create(annotations), await create(annotations, [], 'other'), await create(annotations, [], 'app', 1)];
    for (const id of ids) await runtime.startContainer(id);
    await clock.advance(60_000);
    expect(await Promise.all(ids.map(state))).toEqual(['EXITED 0', 'RUNNING', 'RUNNING']);
  });

  it('answers probes by the age of the container', async () => {
    const id = await start({ 'ready-after': '3s', 'unhealthy-after': '10s' });
    const probes = () =>
      Promise.all(
        ['startup', 'readiness', 'liveness'].map(async (kind) => (await runtime.execSync(id, ['oarlock.dev/probe', kind], 1)).exitCode),
      );
    expect(await probes()).toEqual([1, 1, 0]);
    await clock.advance(3000);
    expect(await probes()).toEqual([0, 0, 0]);
    await clock.advance(7000);
    expect(await probes()).toEqual([0, 1, 1]);
  });

  it('stops a container after its stop delay, within the grace period', async () => {
    const [slow, stubborn] = [await start({ 'stop-delay': '3s' }), await start({}, ['stubborn'], 'other')];
    const stopping = Promise.all([runtime.stopContainer(slow, 10), runtime.stopContainer(stubborn, 5)]);
    await clock.advance(2999);
    expect(await state(slow)).toBe('RUNNING');
    await clock.advance(1);
    expect(await state(slow)).toBe('EXITED 0');
    await clock.advance(2000);
    await stopping;
    expect(await state(stubborn)).toBe('EXITED 137');
  });

  it('fails the steps that annotations specify, and rejects invalid annotations', async () => {
    await expect(runtime.runPodSandbox(sandboxConfig({ 'fail-sandbox': 'no space' }), '')).rejects.toThrow('no space');
    await expect(create({ 'fail-create': 'no disk' })).rejects.toThrow('no disk');
    runtime = new SimulatedRuntime(clock, { images: ['app'] });
    await expect(runtime.startContainer(await create({ 'fail-start': 'no way' }))).rejects.toThrow('no way');
    runtime = new SimulatedRuntime(clock, { images: ['app'] });
    await expect(create({ 'exit-after': 'soon' })).rejects.toMatchObject({ code: 'InvalidArgument' });
  });

  it('writes the start and the command to the log', async () => {
    const id = await start({}, ['serve', 'all']);
    const { stdout } = await runtime.execSync(id, ['oarlock.dev/logs'], 1);
    expect(stdout.toString()).toBe('2026-01-01T00:00:00.100000Z stdout F simulated app: serve all\n');
    expect((await runtime.execSync(id, ['ls', '-l'], 1)).stdout.toString()).toBe('simulated: ls -l\n');
    expect((await runtime.execSync(id, ['printenv'], 1)).stdout.toString()).toBe('A=1\n');
  });

  it('pulls every image except missing ones', async () => {
    const pulling = Promise.all([
      runtime.pullImage('new', undefined, undefined),
      runtime.pullImage('none:1', undefined, undefined).catch((error: unknown) => String(error)),
    ]);
    await clock.advance(50);
    const [reference, error] = await pulling;
    expect((await runtime.imageStatus('docker.io/library/new:latest'))?.id).toBe(reference);
    expect(error).toContain('docker.io/library/none:1: not found');
    await runtime.removeImage('new');
    expect(await runtime.imageStatus('new')).toBeUndefined();
  });
});

describe('AddressPool', () => {
  it('allocates each address once, and again after its release', () => {
    const pool = new AddressPool('10.0.0.8/29');
    const all = Array.from({ length: 6 }, () => pool.take());
    expect(all).toEqual(['10.0.0.9', '10.0.0.10', '10.0.0.11', '10.0.0.12', '10.0.0.13', '10.0.0.14']);
    expect(() => pool.take()).toThrow('no simulated address is left');
    pool.release('10.0.0.11');
    expect(pool.take()).toBe('10.0.0.11');
    expect(() => new AddressPool('10.0.0.0/31')).toThrow(/range/);
  });
});

describe('plugin', () => {
  it('declares its traits and rejects unknown config', () => {
    expect(plugin.declares).toEqual({ simulated: true, images: true, invokesCni: false, networkNamespaces: false });
    expect(plugin.config.safeParse({ startDelayMs: 5, addresses: '10.1.0.0/16' }).success).toBe(true);
    expect(plugin.config.safeParse({ addresses: 'everywhere' }).success).toBe(false);
    expect(plugin.config.safeParse({ delay: 5 }).success).toBe(false);
  });
});
