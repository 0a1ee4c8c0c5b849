import { expect } from 'vitest';
import type { Suite } from './harness.ts';

export function imageContract({ needs }: Suite): void {
  needs('images', 'returns the status of a present image', async (harness) => {
    const { driver, fixture } = harness;
    const image = await driver.imageStatus(fixture.image);
    expect(image).toMatchObject({ id: expect.stringMatching(/./), sizeBytes: expect.any(Number) });
    expect((await driver.listImages()).map((one) => one.id)).toContain(image?.id);
    expect(await driver.imageStatus('oarlock.test/never-made:1')).toBeUndefined();
    const usage = await driver.imageFsInfo();
    expect(usage.mountpoint).toMatch(/^\//);
    expect(usage.usedBytes).toBeGreaterThanOrEqual(0);
  });

  needs('images', 'rejects a container of an absent image', async (harness) => {
    const sandbox = await harness.sandbox();
    const config = { ...harness.containerConfig('serve'), image: { image: 'oarlock.test/never-made:1' } };
    await expect(harness.driver.createContainer(sandbox.id, config, sandbox.config)).rejects.toMatchObject({ name: 'RuntimeError' });
    expect(await harness.driver.listContainers({ sandboxId: sandbox.id })).toEqual([]);
  });

  needs('imagePull', 'pulls with credentials, and reports PermissionDenied and NotFound', async (harness) => {
    const { driver, fixture } = harness;
    if (!fixture.pull) throw new Error('imagePull is supported, but the fixture has no image to pull');
    const { image, missing } = fixture.pull;
    const auth = { ...fixture.pull.auth, serverAddress: image.split('/')[0] ?? '' };
    expect(await driver.imageStatus(image)).toBeUndefined();
    await expect(driver.pullImage(image, undefined, undefined)).rejects.toMatchObject({ name: 'RuntimeError', code: 'PermissionDenied' });
    await expect(driver.pullImage(missing, auth, undefined)).rejects.toMatchObject({ name: 'RuntimeError', code: 'NotFound' });
    const reference = await driver.pullImage(image, auth, undefined);
    expect(await driver.pullImage(image, auth, undefined)).toBe(reference);
    const status = await driver.imageStatus(image);
    expect(status?.repoTags).toContain(image);
    expect((await driver.imageStatus(reference))?.id).toBe(status?.id);

    const sandbox = await harness.sandbox();
    const config = { ...harness.containerConfig('exit', ['5']), image: { image: reference, userSpecifiedImage: image } };
    const id = await driver.createContainer(sandbox.id, config, sandbox.config);
    await driver.startContainer(id);
    expect(await harness.waitForExit(id)).toMatchObject({ exitCode: 5, imageRef: expect.stringMatching(/./) });
    await driver.removePodSandbox(sandbox.id);
    await driver.removeImage(image);
  });

  needs(['imagePull', 'imageRemove'], 'removes an image idempotently', async (harness) => {
    const { driver, fixture } = harness;
    if (!fixture.pull) throw new Error('imagePull is supported, but the fixture has no image to pull');
    await driver.pullImage(fixture.pull.image, fixture.pull.auth, undefined);
    await driver.removeImage(fixture.pull.image);
    expect(await driver.imageStatus(fixture.pull.image)).toBeUndefined();
    await driver.removeImage(fixture.pull.image);
  });

  needs('stats', 'reports usage of a running container', async (harness) => {
    const { driver } = harness;
    const sandbox = await harness.sandbox();
    const id = await harness.start(sandbox, 'serve');
    const stats = await driver.containerStats(id);
    expect(stats.id).toBe(id);
    expect(Math.abs(stats.at - Date.now())).toBeLessThan(60_000);
    // the program may not have run yet, and usage may be counted in ticks of 10 ms
    await expect.poll(async () => (await driver.containerStats(id)).cpuUsageNanos).toBeGreaterThan(0);
    await expect.poll(async () => (await driver.containerStats(id)).memoryWorkingSetBytes).toBeGreaterThan(0);
    expect((await driver.listContainerStats({ sandboxId: sandbox.id })).map((one) => one.id)).toEqual([id]);
    await driver.removeContainer(id);
    await expect(driver.containerStats(id)).rejects.toMatchObject({ code: 'NotFound' });
  });

  needs(['updateResources', 'execSync'], 'changes the limits of a running container', async (harness) => {
    const sandbox = await harness.sandbox();
    const limit = (mebibytes: number) => mebibytes * 1024 * 1024;
    const id = await harness.start(sandbox, 'serve', [], {
      linux: { resources: { memoryLimitBytes: limit(64) }, security: { namespaces: { network: 'POD', pid: 'CONTAINER', ipc: 'POD' } } },
    });
    expect(`${(await harness.exec(id, 'memory-limit', [])).stdout}`.trim()).toBe(`${limit(64)}`);
    await harness.driver.updateContainerResources(id, { memoryLimitBytes: limit(96) });
    expect(`${(await harness.exec(id, 'memory-limit', [])).stdout}`.trim()).toBe(`${limit(96)}`);
    expect((await harness.driver.containerStatus(id)).state).toBe('RUNNING');
  });

  needs('oom', 'reports OOMKilled for a container that exceeds its memory limit', async (harness) => {
    const sandbox = await harness.sandbox();
    const id = await harness.start(sandbox, 'hog', [], {
      linux: {
        resources: { memoryLimitBytes: 16 * 1024 * 1024 },
        security: { namespaces: { network: 'POD', pid: 'CONTAINER', ipc: 'POD' } },
      },
    });
    // the runtime may learn of the exit and of its cause in either order
    expect(
      await harness.waitForStatus(id, (status) => status.state === 'EXITED' && status.reason === 'OOMKilled', 'OOMKilled'),
    ).toMatchObject({
      state: 'EXITED',
      exitCode: 137,
    });
  });
}
