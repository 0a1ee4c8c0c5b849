import { expect } from 'vitest';
import type { RuntimeHarness, HarnessSandbox, Suite } from './harness.ts';
import type { ContainerState } from '../runtime.ts';
import { RuntimeError } from '../runtime.ts';

const ids = (items: readonly { readonly id: string }[]) => items.map((item) => item.id).sort();
const state = async (harness: RuntimeHarness, id: string): Promise<ContainerState> => (await harness.driver.containerStatus(id)).state;
const code = (wanted: string) => expect.objectContaining({ name: 'RuntimeError', code: wanted });

export function lifecycleContract({ test, needs }: Suite): void {
  test('reports its version, and that it is ready', async ({ driver }) => {
    expect(await driver.version()).toEqual({ name: expect.stringMatching(/./), version: expect.stringMatching(/./), apiVersion: 'v1' });
    const conditions = await driver.status();
    expect(conditions.map((condition) => condition.type).sort()).toEqual(['NetworkReady', 'RuntimeReady']);
    expect(conditions.every((condition) => condition.status)).toBe(true);
  });

  test('runs a sandbox and returns its status', async (harness) => {
    const before = Date.now();
    const { id, config } = await harness.sandbox({ labels: { tier: 'a' }, annotations: { note: 'kept as it is: ü' } });
    const status = await harness.driver.podSandboxStatus(id);
    expect(status).toMatchObject({ id, metadata: config.metadata, state: 'READY', labels: config.labels, annotations: config.annotations });
    expect(status.createdAt).toBeGreaterThan(before - 5_000);
    expect(status.createdAt).toBeLessThan(Date.now() + 5_000);
  });

  needs('addresses', 'assigns each sandbox its own address', async (harness) => {
    const [one, two] = await Promise.all([harness.sandbox(), harness.sandbox()]);
    const addresses = await Promise.all([one, two].map(async ({ id }) => (await harness.driver.podSandboxStatus(id)).ips));
    for (const ips of addresses) expect(ips[0]).toMatch(/^[0-9a-f:.]+$/);
    expect(addresses[0]?.[0]).not.toBe(addresses[1]?.[0]);
  });

  test('moves a container from CREATED to RUNNING to EXITED', async (harness) => {
    const sandbox = await harness.sandbox();
    const config = harness.containerConfig('serve', [], { name: 'main', attempt: 3, labels: { part: 'b' }, annotations: { hash: 'f00' } });
    const id = await harness.driver.createContainer(sandbox.id, config, sandbox.config);
    const created = await harness.driver.containerStatus(id);
    expect(created).toMatchObject({
      id,
      sandboxId: sandbox.id,
      metadata: { name: 'main', attempt: 3 },
      state: 'CREATED',
      labels: { part: 'b' },
      annotations: { hash: 'f00' },
    });
    expect(created.logPath).toBe(`${sandbox.config.logDirectory}/${config.logPath}`);
    expect(created.startedAt).toBeUndefined();
    expect(created.exitCode).toBeUndefined();

    await harness.driver.startContainer(id);
    const running = await harness.driver.containerStatus(id);
    expect(running.state).toBe('RUNNING');
    expect(running.startedAt).toBeGreaterThanOrEqual(created.createdAt);
    expect(running.finishedAt).toBeUndefined();

    await harness.driver.stopContainer(id, 10);
    const exited = await harness.driver.containerStatus(id);
    expect(exited).toMatchObject({ state: 'EXITED', metadata: { name: 'main', attempt: 3 }, labels: { part: 'b' } });
    expect(exited.startedAt).toBe(running.startedAt);
    expect(exited.finishedAt).toBeGreaterThanOrEqual(running.startedAt ?? 0);

    await harness.driver.removeContainer(id);
    await expect(harness.driver.containerStatus(id)).rejects.toEqual(code('NotFound'));
  });

  test('rejects a second start of a container', async (harness) => {
    const sandbox = await harness.sandbox();
    const id = await harness.start(sandbox, 'serve');
    await expect(harness.driver.startContainer(id)).rejects.toBeInstanceOf(RuntimeError);
    expect(await state(harness, id)).toBe('RUNNING');
    await harness.driver.stopContainer(id, 10);
    await expect(harness.driver.startContainer(id)).rejects.toBeInstanceOf(RuntimeError);
    expect(await state(harness, id)).toBe('EXITED');
  });

  test('keeps exit codes and reasons until removal', async (harness) => {
    const sandbox = await harness.sandbox();
    const [good, bad] = await Promise.all([harness.runToExit(sandbox, 'exit', ['0']), harness.runToExit(sandbox, 'exit', ['42'])]);
    expect(good).toMatchObject({ state: 'EXITED', exitCode: 0, reason: 'Completed' });
    expect(bad).toMatchObject({ state: 'EXITED', exitCode: 42, reason: 'Error' });
    await harness.driver.stopPodSandbox(sandbox.id);
    expect(await harness.driver.containerStatus(bad.id)).toMatchObject({
      state: 'EXITED',
      exitCode: 42,
      reason: 'Error',
      finishedAt: bad.finishedAt,
    });
  });

  test('reports a command that cannot be run, and can remove its container', async (harness) => {
    const sandbox = await harness.sandbox();
    const config = { ...harness.containerConfig('exit', ['0']), command: ['/there/is/no/such/program'], args: [] };
    const id = await harness.driver.createContainer(sandbox.id, config, sandbox.config);
    await expect(harness.driver.startContainer(id)).rejects.toBeInstanceOf(RuntimeError);
    const status = await harness.driver.containerStatus(id);
    expect(status).toMatchObject({ state: 'EXITED', reason: expect.stringMatching(/^(StartError|ContainerCannotRun)$/) });
    expect([127, 128]).toContain(status.exitCode);
    await harness.driver.removeContainer(id);
  });

  needs('signals', 'stops a container with a signal that it can handle', async (harness) => {
    const sandbox = await harness.sandbox();
    const id = await harness.start(sandbox, 'serve');
    if (harness.fixture.unsupported?.logs === undefined) await harness.waitForLog(id, 'ready'); // a signal before the handler is installed ends it
    await harness.driver.stopContainer(id, 3600); // must return long before that
    expect(await harness.driver.containerStatus(id)).toMatchObject({ state: 'EXITED', exitCode: 0, reason: 'Completed' });
  });

  needs(['signals', 'logs'], 'kills a container that does not exit within its grace period', async (harness) => {
    const sandbox = await harness.sandbox();
    const id = await harness.start(sandbox, 'stubborn');
    await harness.waitForLog(id, 'ready');
    const began = Date.now();
    await harness.driver.stopContainer(id, 1);
    expect(Date.now() - began).toBeGreaterThanOrEqual(950);
    expect(await harness.driver.containerStatus(id)).toMatchObject({ state: 'EXITED', exitCode: 137, reason: 'Error' });
  });

  needs(['signals', 'logs'], 'kills immediately with a grace period of 0', async (harness) => {
    const sandbox = await harness.sandbox();
    const id = await harness.start(sandbox, 'stubborn');
    await harness.waitForLog(id, 'ready');
    await harness.driver.stopContainer(id, 0);
    expect(await harness.driver.containerStatus(id)).toMatchObject({ state: 'EXITED', exitCode: 137 });
  });

  test('stops and removes containers idempotently: running, exited, created, removed, unknown', async (harness) => {
    const { driver } = harness;
    const sandbox = await harness.sandbox();
    const running = await harness.start(sandbox, 'serve');
    await Promise.all([driver.stopContainer(running, 5), driver.stopContainer(running, 5)]);
    await driver.stopContainer(running, 5);
    await driver.removeContainer(running);
    await driver.removeContainer(running);
    await driver.stopContainer(running, 5);

    const created = await harness.create(sandbox, 'serve');
    await driver.stopContainer(created, 5);
    await driver.removeContainer(created);

    const killed = await harness.start(sandbox, 'serve');
    await driver.removeContainer(killed);
    expect(await driver.listContainers({ sandboxId: sandbox.id })).toEqual([]);
    await driver.stopContainer('0'.repeat(64), 5);
    await driver.removeContainer('0'.repeat(64));
  });

  test('stops a sandbox with its containers, and keeps their status', async (harness) => {
    const { driver } = harness;
    const sandbox = await harness.sandbox();
    const id = await harness.start(sandbox, 'serve');
    await driver.stopPodSandbox(sandbox.id);
    expect((await driver.podSandboxStatus(sandbox.id)).state).toBe('NOTREADY');
    expect(await state(harness, id)).toBe('EXITED');
    expect(ids(await driver.listContainers({ sandboxId: sandbox.id }))).toEqual([id]);
    await expect(harness.start(sandbox, 'serve')).rejects.toBeInstanceOf(RuntimeError);
    await driver.stopPodSandbox(sandbox.id);
  });

  test('removes a sandbox with its containers, and kills running ones', async (harness) => {
    const { driver } = harness;
    const sandbox = await harness.sandbox();
    const containers = [
      await harness.start(sandbox, 'serve'),
      (await harness.runToExit(sandbox, 'exit', ['1'])).id,
      await harness.create(sandbox, 'serve'),
    ];
    await driver.removePodSandbox(sandbox.id);
    for (const id of containers) await expect(driver.containerStatus(id)).rejects.toEqual(code('NotFound'));
    await expect(driver.podSandboxStatus(sandbox.id)).rejects.toEqual(code('NotFound'));
    expect(await driver.listContainers({ sandboxId: sandbox.id })).toEqual([]);
    expect(await driver.listPodSandbox({ id: sandbox.id })).toEqual([]);
    await driver.removePodSandbox(sandbox.id);
    await driver.stopPodSandbox(sandbox.id);
  });

  test('reports NotFound for unknown ids', async (harness) => {
    const { driver } = harness;
    const none = 'f'.repeat(64);
    const config = harness.sandboxConfig();
    await expect(driver.podSandboxStatus(none)).rejects.toEqual(code('NotFound'));
    await expect(driver.containerStatus(none)).rejects.toEqual(code('NotFound'));
    await expect(driver.startContainer(none)).rejects.toEqual(code('NotFound'));
    await expect(driver.createContainer(none, harness.containerConfig('serve'), config)).rejects.toEqual(code('NotFound'));
    await driver.stopPodSandbox(none);
    await driver.removePodSandbox(none);
  });

  needs('nameReservation', 'never creates two sandboxes or containers with the same name and attempt', async (harness) => {
    const { driver } = harness;
    const sandbox = await harness.sandbox();
    const again = await driver.runPodSandbox(sandbox.config, harness.fixture.handler ?? '').then(
      (id) => ({ id }),
      (error: unknown) => ({ error }),
    );
    if ('id' in again) expect(again.id).toBe(sandbox.id);
    else expect(again.error).toEqual(code('AlreadyExists'));
    expect(ids(await driver.listPodSandbox({ labels: sandbox.config.labels }))).toEqual([sandbox.id]);

    const id = await harness.create(sandbox, 'serve', [], { name: 'main' });
    const twice = await harness.create(sandbox, 'serve', [], { name: 'main' }).then(
      (other) => ({ id: other }),
      (error: unknown) => ({ error }),
    );
    if ('id' in twice) expect(twice.id).toBe(id);
    else expect(twice.error).toEqual(code('AlreadyExists'));
    const next = await harness.create(sandbox, 'serve', [], { name: 'main', attempt: 1 });
    expect(next).not.toBe(id);
    await driver.removeContainer(id);
    expect(await harness.create(sandbox, 'serve', [], { name: 'main' })).not.toBe(id);
  });

  test('creates another sandbox for a second attempt of a pod', async (harness) => {
    const first = await harness.sandbox();
    await harness.driver.stopPodSandbox(first.id);
    const { name, uid } = first.config.metadata;
    const second = await harness.sandbox({ name, uid, attempt: 1 });
    expect(second.id).not.toBe(first.id);
    const listed = await harness.driver.listPodSandbox({ labels: { 'io.kubernetes.pod.uid': uid } });
    expect(listed.map((one) => [one.metadata.attempt, one.state]).sort()).toEqual([
      [0, 'NOTREADY'],
      [1, 'READY'],
    ]);
  });

  test('filters lists by every field, and by several', async (harness) => {
    const { driver } = harness;
    const uid = `${Date.now()}`;
    const one = await harness.sandbox({ labels: { run: uid, tier: 'a' } });
    const two = await harness.sandbox({ labels: { run: uid, tier: 'b' } });
    await driver.stopPodSandbox(two.id);
    expect(ids(await driver.listPodSandbox({ labels: { run: uid } }))).toEqual([one.id, two.id].sort());
    expect(ids(await driver.listPodSandbox({ labels: { run: uid, tier: 'b' } }))).toEqual([two.id]);
    expect(ids(await driver.listPodSandbox({ id: one.id }))).toEqual([one.id]);
    expect(ids(await driver.listPodSandbox({ labels: { run: uid }, state: 'READY' }))).toEqual([one.id]);
    expect(ids(await driver.listPodSandbox({ labels: { run: uid }, state: 'NOTREADY' }))).toEqual([two.id]);
    expect(await driver.listPodSandbox({ id: one.id, state: 'NOTREADY' })).toEqual([]);
    expect(ids(await driver.listPodSandbox())).toEqual(expect.arrayContaining([one.id, two.id]));

    const labels = { run: uid };
    const created = await harness.create(one, 'serve', [], { labels });
    const running = await harness.start(one, 'serve', [], { labels: { ...labels, tier: 'a' } });
    const exited = (await harness.runToExit(one, 'exit', ['0'], { labels })).id;
    expect(ids(await driver.listContainers({ sandboxId: one.id }))).toEqual([created, running, exited].sort());
    expect(await driver.listContainers({ sandboxId: two.id })).toEqual([]);
    for (const [wanted, id] of [
      ['CREATED', created],
      ['RUNNING', running],
      ['EXITED', exited],
    ] as const) {
      expect(await driver.listContainers({ labels, state: wanted })).toEqual([
        expect.objectContaining({ id, sandboxId: one.id, state: wanted }),
      ]);
    }
    expect(ids(await driver.listContainers({ labels: { tier: 'a', run: uid } }))).toEqual([running]);
    expect(ids(await driver.listContainers({ id: exited }))).toEqual([exited]);
    expect(await driver.listContainers({ id: exited, state: 'RUNNING' })).toEqual([]);
    expect(ids(await driver.listContainers())).toEqual(expect.arrayContaining([created, running, exited]));
  });

  test('reports every transition by an event, after which the status has the new state', async (harness) => {
    const { driver } = harness;
    const sandbox = await harness.sandbox();
    await harness.waitForEvent('STARTED', sandbox.id);
    const id = await harness.create(sandbox, 'sleep', ['0.2']);
    expect(await harness.waitForEvent('CREATED', id)).toMatchObject({ sandboxId: sandbox.id, containerId: id });
    await driver.startContainer(id);
    expect(await harness.waitForEvent('STARTED', id)).toMatchObject({ sandboxId: sandbox.id, containerId: id });
    expect(await harness.waitForEvent('STOPPED', id)).toMatchObject({ sandboxId: sandbox.id, containerId: id });
    expect(await state(harness, id)).toBe('EXITED');
    await driver.removeContainer(id);
    expect(await harness.waitForEvent('DELETED', id)).toMatchObject({ sandboxId: sandbox.id, containerId: id });
    await driver.stopPodSandbox(sandbox.id);
    expect(await harness.waitForEvent('STOPPED', sandbox.id)).toMatchObject({ sandboxId: sandbox.id });
    expect((await driver.podSandboxStatus(sandbox.id)).state).toBe('NOTREADY');
    await driver.removePodSandbox(sandbox.id);
    await harness.waitForEvent('DELETED', sandbox.id);
    await expect(driver.podSandboxStatus(sandbox.id)).rejects.toEqual(code('NotFound'));
  });

  test('runs many pods concurrently', async (harness) => {
    const each = async (index: number) => {
      const sandbox: HarnessSandbox = await harness.sandbox();
      const statuses = await Promise.all([
        harness.runToExit(sandbox, 'exit', [`${index}`]),
        harness.runToExit(sandbox, 'exit', [`${index + 100}`]),
      ]);
      await harness.driver.removePodSandbox(sandbox.id);
      return statuses.map((status) => status.exitCode);
    };
    const exits = await Promise.all(Array.from({ length: 6 }, (_, index) => each(index)));
    expect(exits).toEqual(Array.from({ length: 6 }, (_, index) => [index, index + 100]));
  });

  needs(['environment', 'logs'], 'sets the environment and working directory of a container', async (harness) => {
    const sandbox = await harness.sandbox();
    const value = 'a b  "c" $HOME \\ ü';
    const status = await harness.runToExit(sandbox, 'env', ['GREETING'], { envs: [{ key: 'GREETING', value }] });
    expect((await harness.log(status.id)).map((record) => record.text)).toEqual([value]);
    const there = await harness.runToExit(sandbox, 'pwd', [], { workingDir: '/tmp' });
    expect((await harness.log(there.id)).map((record) => record.text)).toEqual(['/tmp']);
  });

  test('rejects a call whose signal is aborted', async ({ driver }) => {
    await expect(driver.listContainers({}, { signal: AbortSignal.abort() })).rejects.toThrow();
    await expect(driver.version({ signal: AbortSignal.abort() })).rejects.toThrow();
  });
}
