import { expect } from 'vitest';
import type { Bench, BenchSandbox } from './runtime.contract.bench.ts';
import type { Suite } from './runtime.contract.ts';
import type { ContainerState } from './runtime.ts';
import { RuntimeError } from './runtime.ts';

const ids = (items: readonly { readonly id: string }[]) => items.map((item) => item.id).sort();
const state = async (bench: Bench, id: string): Promise<ContainerState> => (await bench.driver.containerStatus(id)).state;
const code = (wanted: string) => expect.objectContaining({ name: 'RuntimeError', code: wanted });

export function lifecycleContract({ test, needs }: Suite): void {
  test('says what it is, and that it is ready', async ({ driver }) => {
    expect(await driver.version()).toEqual({ name: expect.stringMatching(/./), version: expect.stringMatching(/./), apiVersion: 'v1' });
    const conditions = await driver.status();
    expect(conditions.map((condition) => condition.type).sort()).toEqual(['NetworkReady', 'RuntimeReady']);
    expect(conditions.every((condition) => condition.status)).toBe(true);
  });

  test('runs a sandbox and tells of it', async (bench) => {
    const before = Date.now();
    const { id, config } = await bench.sandbox({ labels: { tier: 'a' }, annotations: { note: 'kept as it is: ü' } });
    const status = await bench.driver.podSandboxStatus(id);
    expect(status).toMatchObject({ id, metadata: config.metadata, state: 'READY', labels: config.labels, annotations: config.annotations });
    expect(status.createdAt).toBeGreaterThan(before - 5_000);
    expect(status.createdAt).toBeLessThan(Date.now() + 5_000);
  });

  needs('addresses', 'gives a sandbox an address of its own', async (bench) => {
    const [one, two] = await Promise.all([bench.sandbox(), bench.sandbox()]);
    const addresses = await Promise.all([one, two].map(async ({ id }) => (await bench.driver.podSandboxStatus(id)).ips));
    for (const ips of addresses) expect(ips[0]).toMatch(/^[0-9a-f:.]+$/);
    expect(addresses[0]?.[0]).not.toBe(addresses[1]?.[0]);
  });

  test('takes a container from CREATED over RUNNING to EXITED', async (bench) => {
    const sandbox = await bench.sandbox();
    const config = bench.containerConfig('serve', [], { name: 'main', attempt: 3, labels: { part: 'b' }, annotations: { hash: 'f00' } });
    const id = await bench.driver.createContainer(sandbox.id, config, sandbox.config);
    const created = await bench.driver.containerStatus(id);
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

    await bench.driver.startContainer(id);
    const running = await bench.driver.containerStatus(id);
    expect(running.state).toBe('RUNNING');
    expect(running.startedAt).toBeGreaterThanOrEqual(created.createdAt);
    expect(running.finishedAt).toBeUndefined();

    await bench.driver.stopContainer(id, 10);
    const exited = await bench.driver.containerStatus(id);
    expect(exited).toMatchObject({ state: 'EXITED', metadata: { name: 'main', attempt: 3 }, labels: { part: 'b' } });
    expect(exited.startedAt).toBe(running.startedAt);
    expect(exited.finishedAt).toBeGreaterThanOrEqual(running.startedAt ?? 0);

    await bench.driver.removeContainer(id);
    await expect(bench.driver.containerStatus(id)).rejects.toEqual(code('NotFound'));
  });

  test('refuses to start what is started, and never runs a container twice', async (bench) => {
    const sandbox = await bench.sandbox();
    const id = await bench.start(sandbox, 'serve');
    await expect(bench.driver.startContainer(id)).rejects.toBeInstanceOf(RuntimeError);
    expect(await state(bench, id)).toBe('RUNNING');
    await bench.driver.stopContainer(id, 10);
    await expect(bench.driver.startContainer(id)).rejects.toBeInstanceOf(RuntimeError);
    expect(await state(bench, id)).toBe('EXITED');
  });

  test('keeps exit codes and reasons until removal', async (bench) => {
    const sandbox = await bench.sandbox();
    const [good, bad] = await Promise.all([bench.finish(sandbox, 'exit', ['0']), bench.finish(sandbox, 'exit', ['42'])]);
    expect(good).toMatchObject({ state: 'EXITED', exitCode: 0, reason: 'Completed' });
    expect(bad).toMatchObject({ state: 'EXITED', exitCode: 42, reason: 'Error' });
    await bench.driver.stopPodSandbox(sandbox.id);
    expect(await bench.driver.containerStatus(bad.id)).toMatchObject({
      state: 'EXITED',
      exitCode: 42,
      reason: 'Error',
      finishedAt: bad.finishedAt,
    });
  });

  test('reports a command that cannot be run, and can remove its container', async (bench) => {
    const sandbox = await bench.sandbox();
    const config = { ...bench.containerConfig('exit', ['0']), command: ['/there/is/no/such/program'], args: [] };
    const id = await bench.driver.createContainer(sandbox.id, config, sandbox.config);
    await expect(bench.driver.startContainer(id)).rejects.toBeInstanceOf(RuntimeError);
    const status = await bench.driver.containerStatus(id);
    expect(status).toMatchObject({ state: 'EXITED', reason: expect.stringMatching(/^(StartError|ContainerCannotRun)$/) });
    expect([127, 128]).toContain(status.exitCode);
    await bench.driver.removeContainer(id);
  });

  needs('signals', 'stops with the signal that lets a program end by itself', async (bench) => {
    const sandbox = await bench.sandbox();
    const id = await bench.start(sandbox, 'serve');
    if (bench.fixture.lacks?.logs === undefined) await bench.logged(id, 'ready'); // before it handles the signal, the signal ends it
    await bench.driver.stopContainer(id, 3600); // long before that
    expect(await bench.driver.containerStatus(id)).toMatchObject({ state: 'EXITED', exitCode: 0, reason: 'Completed' });
  });

  needs(['signals', 'logs'], 'kills what does not end within its grace', async (bench) => {
    const sandbox = await bench.sandbox();
    const id = await bench.start(sandbox, 'stubborn');
    await bench.logged(id, 'ready');
    const began = Date.now();
    await bench.driver.stopContainer(id, 1);
    expect(Date.now() - began).toBeGreaterThanOrEqual(950);
    expect(await bench.driver.containerStatus(id)).toMatchObject({ state: 'EXITED', exitCode: 137, reason: 'Error' });
  });

  needs(['signals', 'logs'], 'kills at once without a grace', async (bench) => {
    const sandbox = await bench.sandbox();
    const id = await bench.start(sandbox, 'stubborn');
    await bench.logged(id, 'ready');
    await bench.driver.stopContainer(id, 0);
    expect(await bench.driver.containerStatus(id)).toMatchObject({ state: 'EXITED', exitCode: 137 });
  });

  test('stops and removes containers idempotently, running, stopped, never started, gone and unknown', async (bench) => {
    const { driver } = bench;
    const sandbox = await bench.sandbox();
    const running = await bench.start(sandbox, 'serve');
    await Promise.all([driver.stopContainer(running, 5), driver.stopContainer(running, 5)]);
    await driver.stopContainer(running, 5);
    await driver.removeContainer(running);
    await driver.removeContainer(running);
    await driver.stopContainer(running, 5);

    const created = await bench.create(sandbox, 'serve');
    await driver.stopContainer(created, 5);
    await driver.removeContainer(created);

    const killed = await bench.start(sandbox, 'serve');
    await driver.removeContainer(killed);
    expect(await driver.listContainers({ sandboxId: sandbox.id })).toEqual([]);
    await driver.stopContainer('0'.repeat(64), 5);
    await driver.removeContainer('0'.repeat(64));
  });

  test('stops a sandbox: its containers end, all of it stays to be looked at', async (bench) => {
    const { driver } = bench;
    const sandbox = await bench.sandbox();
    const id = await bench.start(sandbox, 'serve');
    await driver.stopPodSandbox(sandbox.id);
    expect((await driver.podSandboxStatus(sandbox.id)).state).toBe('NOTREADY');
    expect(await state(bench, id)).toBe('EXITED');
    expect(ids(await driver.listContainers({ sandboxId: sandbox.id }))).toEqual([id]);
    await expect(bench.start(sandbox, 'serve')).rejects.toBeInstanceOf(RuntimeError);
    await driver.stopPodSandbox(sandbox.id);
  });

  test('removes a sandbox with its containers, killing what runs', async (bench) => {
    const { driver } = bench;
    const sandbox = await bench.sandbox();
    const containers = [
      await bench.start(sandbox, 'serve'),
      (await bench.finish(sandbox, 'exit', ['1'])).id,
      await bench.create(sandbox, 'serve'),
    ];
    await driver.removePodSandbox(sandbox.id);
    for (const id of containers) await expect(driver.containerStatus(id)).rejects.toEqual(code('NotFound'));
    await expect(driver.podSandboxStatus(sandbox.id)).rejects.toEqual(code('NotFound'));
    expect(await driver.listContainers({ sandboxId: sandbox.id })).toEqual([]);
    expect(await driver.listPodSandbox({ id: sandbox.id })).toEqual([]);
    await driver.removePodSandbox(sandbox.id);
    await driver.stopPodSandbox(sandbox.id);
  });

  test('calls what it does not know NotFound', async (bench) => {
    const { driver } = bench;
    const none = 'f'.repeat(64);
    const config = bench.sandboxConfig();
    await expect(driver.podSandboxStatus(none)).rejects.toEqual(code('NotFound'));
    await expect(driver.containerStatus(none)).rejects.toEqual(code('NotFound'));
    await expect(driver.startContainer(none)).rejects.toEqual(code('NotFound'));
    await expect(driver.createContainer(none, bench.containerConfig('serve'), config)).rejects.toEqual(code('NotFound'));
    await driver.stopPodSandbox(none);
    await driver.removePodSandbox(none);
  });

  needs('nameReservation', 'never makes two sandboxes, or two containers, of one name and attempt', async (bench) => {
    const { driver } = bench;
    const sandbox = await bench.sandbox();
    const again = await driver.runPodSandbox(sandbox.config, bench.fixture.handler ?? '').then(
      (id) => ({ id }),
      (error: unknown) => ({ error }),
    );
    if ('id' in again) expect(again.id).toBe(sandbox.id);
    else expect(again.error).toEqual(code('AlreadyExists'));
    expect(ids(await driver.listPodSandbox({ labels: sandbox.config.labels }))).toEqual([sandbox.id]);

    const id = await bench.create(sandbox, 'serve', [], { name: 'main' });
    const twice = await bench.create(sandbox, 'serve', [], { name: 'main' }).then(
      (other) => ({ id: other }),
      (error: unknown) => ({ error }),
    );
    if ('id' in twice) expect(twice.id).toBe(id);
    else expect(twice.error).toEqual(code('AlreadyExists'));
    const next = await bench.create(sandbox, 'serve', [], { name: 'main', attempt: 1 });
    expect(next).not.toBe(id);
    await driver.removeContainer(id);
    expect(await bench.create(sandbox, 'serve', [], { name: 'main' })).not.toBe(id);
  });

  test('a second attempt of a pod is another sandbox', async (bench) => {
    const first = await bench.sandbox();
    await bench.driver.stopPodSandbox(first.id);
    const { name, uid } = first.config.metadata;
    const second = await bench.sandbox({ name, uid, attempt: 1 });
    expect(second.id).not.toBe(first.id);
    const listed = await bench.driver.listPodSandbox({ labels: { 'io.kubernetes.pod.uid': uid } });
    expect(listed.map((one) => [one.metadata.attempt, one.state]).sort()).toEqual([
      [0, 'NOTREADY'],
      [1, 'READY'],
    ]);
  });

  test('lists by every filter, and by several at once', async (bench) => {
    const { driver } = bench;
    const uid = `${Date.now()}`;
    const one = await bench.sandbox({ labels: { run: uid, tier: 'a' } });
    const two = await bench.sandbox({ labels: { run: uid, tier: 'b' } });
    await driver.stopPodSandbox(two.id);
    expect(ids(await driver.listPodSandbox({ labels: { run: uid } }))).toEqual([one.id, two.id].sort());
    expect(ids(await driver.listPodSandbox({ labels: { run: uid, tier: 'b' } }))).toEqual([two.id]);
    expect(ids(await driver.listPodSandbox({ id: one.id }))).toEqual([one.id]);
    expect(ids(await driver.listPodSandbox({ labels: { run: uid }, state: 'READY' }))).toEqual([one.id]);
    expect(ids(await driver.listPodSandbox({ labels: { run: uid }, state: 'NOTREADY' }))).toEqual([two.id]);
    expect(await driver.listPodSandbox({ id: one.id, state: 'NOTREADY' })).toEqual([]);
    expect(ids(await driver.listPodSandbox())).toEqual(expect.arrayContaining([one.id, two.id]));

    const labels = { run: uid };
    const created = await bench.create(one, 'serve', [], { labels });
    const running = await bench.start(one, 'serve', [], { labels: { ...labels, tier: 'a' } });
    const exited = (await bench.finish(one, 'exit', ['0'], { labels })).id;
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

  test('reports every transition by an event, and shows the new state by then', async (bench) => {
    const { driver } = bench;
    const sandbox = await bench.sandbox();
    await bench.heard('STARTED', sandbox.id);
    const id = await bench.create(sandbox, 'sleep', ['0.2']);
    expect(await bench.heard('CREATED', id)).toMatchObject({ sandboxId: sandbox.id, containerId: id });
    await driver.startContainer(id);
    expect(await bench.heard('STARTED', id)).toMatchObject({ sandboxId: sandbox.id, containerId: id });
    expect(await bench.heard('STOPPED', id)).toMatchObject({ sandboxId: sandbox.id, containerId: id });
    expect(await state(bench, id)).toBe('EXITED');
    await driver.removeContainer(id);
    expect(await bench.heard('DELETED', id)).toMatchObject({ sandboxId: sandbox.id, containerId: id });
    await driver.stopPodSandbox(sandbox.id);
    expect(await bench.heard('STOPPED', sandbox.id)).toMatchObject({ sandboxId: sandbox.id });
    expect((await driver.podSandboxStatus(sandbox.id)).state).toBe('NOTREADY');
    await driver.removePodSandbox(sandbox.id);
    await bench.heard('DELETED', sandbox.id);
    await expect(driver.podSandboxStatus(sandbox.id)).rejects.toEqual(code('NotFound'));
  });

  test('runs many pods at once', async (bench) => {
    const each = async (index: number) => {
      const sandbox: BenchSandbox = await bench.sandbox();
      const statuses = await Promise.all([bench.finish(sandbox, 'exit', [`${index}`]), bench.finish(sandbox, 'exit', [`${index + 100}`])]);
      await bench.driver.removePodSandbox(sandbox.id);
      return statuses.map((status) => status.exitCode);
    };
    const exits = await Promise.all(Array.from({ length: 6 }, (_, index) => each(index)));
    expect(exits).toEqual(Array.from({ length: 6 }, (_, index) => [index, index + 100]));
  });

  needs(['environment', 'logs'], 'gives a container its environment and working directory', async (bench) => {
    const sandbox = await bench.sandbox();
    const value = 'a b  "c" $HOME \\ ü';
    const status = await bench.finish(sandbox, 'env', ['GREETING'], { envs: [{ key: 'GREETING', value }] });
    expect((await bench.log(status.id)).map((record) => record.text)).toEqual([value]);
    const there = await bench.finish(sandbox, 'pwd', [], { workingDir: '/tmp' });
    expect((await bench.log(there.id)).map((record) => record.text)).toEqual(['/tmp']);
  });

  test('ends a call whose signal is aborted', async ({ driver }) => {
    await expect(driver.listContainers({}, { signal: AbortSignal.abort() })).rejects.toThrow();
    await expect(driver.version({ signal: AbortSignal.abort() })).rejects.toThrow();
  });
}
