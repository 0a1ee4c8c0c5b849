import { expect } from 'vitest';
import type { Suite } from './runtime.contract.ts';

export function restartContract({ needs }: Suite): void {
  needs('adoption', 'finds sandboxes and containers again, running and exited, with all that was known of them', async (bench) => {
    const sandbox = await bench.sandbox({ labels: { tier: 'a' }, annotations: { note: 'n' } });
    const running = await bench.start(sandbox, 'serve', [], {
      name: 'main',
      attempt: 2,
      labels: { part: 'b' },
      annotations: { hash: 'f00' },
    });
    const exited = await bench.finish(sandbox, 'exit', ['9']);
    const created = await bench.create(sandbox, 'serve');
    const before = await Promise.all([running, exited.id, created].map((id) => bench.driver.containerStatus(id)));
    const sandboxBefore = await bench.driver.podSandboxStatus(sandbox.id);

    await bench.restartClient();

    expect(await bench.driver.podSandboxStatus(sandbox.id)).toEqual(sandboxBefore);
    const after = await Promise.all([running, exited.id, created].map((id) => bench.driver.containerStatus(id)));
    expect(after).toEqual(before);
    expect((await bench.driver.listContainers({ sandboxId: sandbox.id })).map((one) => one.id).sort()).toEqual(
      [running, exited.id, created].sort(),
    );
  });

  needs('adoption', 'goes on with what it found: events, stop, start, removal', async (bench) => {
    const sandbox = await bench.sandbox();
    const running = await bench.start(sandbox, 'serve');
    const created = await bench.create(sandbox, 'exit', ['3']);
    await bench.restartClient();

    await bench.driver.startContainer(created);
    expect(await bench.exited(created)).toMatchObject({ exitCode: 3 });
    await bench.driver.stopContainer(running, 10);
    expect(await bench.exited(running)).toMatchObject({ state: 'EXITED' });
    await bench.driver.removePodSandbox(sandbox.id);
    await bench.heard('DELETED', sandbox.id);
    expect(await bench.driver.listPodSandbox({ id: sandbox.id })).toEqual([]);
  });

  needs('adoption', 'keeps the exit code of what ended while no client was there', async (bench) => {
    const sandbox = await bench.sandbox();
    const id = await bench.start(sandbox, 'sleep', ['0.3']);
    await bench.restartClient();
    const status = await bench.driver.containerStatus(id);
    if (status.state !== 'EXITED') await bench.heard('STOPPED', id);
    expect(await bench.driver.containerStatus(id)).toMatchObject({ state: 'EXITED', exitCode: 0, reason: 'Completed' });
  });

  needs(['adoption', 'execSync'], 'execs into what it found', async (bench) => {
    const sandbox = await bench.sandbox();
    const id = await bench.start(sandbox, 'serve');
    await bench.restartClient();
    expect((await bench.exec(id, 'exit', ['6'])).exitCode).toBe(6);
  });
}
