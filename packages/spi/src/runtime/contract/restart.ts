import { expect } from 'vitest';
import type { Suite } from './harness.ts';

export function restartContract({ needs }: Suite): void {
  needs('adoption', 'finds sandboxes and containers again, running and exited, with an unchanged status', async (harness) => {
    const sandbox = await harness.sandbox({ labels: { tier: 'a' }, annotations: { note: 'n' } });
    const running = await harness.start(sandbox, 'serve', [], {
      name: 'main',
      attempt: 2,
      labels: { part: 'b' },
      annotations: { hash: 'f00' },
    });
    const exited = await harness.runToExit(sandbox, 'exit', ['9']);
    const created = await harness.create(sandbox, 'serve');
    const before = await Promise.all([running, exited.id, created].map((id) => harness.driver.containerStatus(id)));
    const sandboxBefore = await harness.driver.podSandboxStatus(sandbox.id);

    await harness.restartClient();

    expect(await harness.driver.podSandboxStatus(sandbox.id)).toEqual(sandboxBefore);
    const after = await Promise.all([running, exited.id, created].map((id) => harness.driver.containerStatus(id)));
    expect(after).toEqual(before);
    expect((await harness.driver.listContainers({ sandboxId: sandbox.id })).map((one) => one.id).sort()).toEqual(
      [running, exited.id, created].sort(),
    );
  });

  needs('adoption', 'can start, stop and remove what it found, with events', async (harness) => {
    const sandbox = await harness.sandbox();
    const running = await harness.start(sandbox, 'serve');
    const created = await harness.create(sandbox, 'exit', ['3']);
    await harness.restartClient();

    await harness.driver.startContainer(created);
    expect(await harness.waitForExit(created)).toMatchObject({ exitCode: 3 });
    await harness.driver.stopContainer(running, 10);
    expect(await harness.waitForExit(running)).toMatchObject({ state: 'EXITED' });
    await harness.driver.removePodSandbox(sandbox.id);
    await harness.waitForEvent('DELETED', sandbox.id);
    expect(await harness.driver.listPodSandbox({ id: sandbox.id })).toEqual([]);
  });

  needs('adoption', 'keeps the exit code of a container that exited while no client was connected', async (harness) => {
    const sandbox = await harness.sandbox();
    const id = await harness.start(sandbox, 'sleep', ['0.3']);
    await harness.restartClient();
    const status = await harness.driver.containerStatus(id);
    if (status.state !== 'EXITED') await harness.waitForEvent('STOPPED', id);
    expect(await harness.driver.containerStatus(id)).toMatchObject({ state: 'EXITED', exitCode: 0, reason: 'Completed' });
  });

  needs(['adoption', 'execSync'], 'can exec in a container that it found', async (harness) => {
    const sandbox = await harness.sandbox();
    const id = await harness.start(sandbox, 'serve');
    await harness.restartClient();
    expect((await harness.exec(id, 'exit', ['6'])).exitCode).toBe(6);
  });
}
