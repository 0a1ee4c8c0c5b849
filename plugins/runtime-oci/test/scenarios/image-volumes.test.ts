import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { missingForRoot, missingForRunc, openRuntime, runcMode, type OciFixture } from '../support/fixture.ts';
import { containerConfig, podConfig } from '../support/pod.ts';

const modes = [
  { name: 'root with runc', missing: missingForRunc(), mode: runcMode() },
  { name: 'root without', missing: missingForRoot(), mode: { program: 'unshare', user: 'root' } },
] as const;

describe.each(modes)('an image volume in the mode $name', ({ missing, mode }) => {
  let fixture: OciFixture | undefined;
  afterEach(() => fixture?.dispose());

  it.skipIf(missing !== undefined)('has the files of the image, read-only', async () => {
    fixture = await openRuntime(mode);
    const { driver, dataDir, image } = fixture;
    const pod = podConfig(join(dataDir, 'logs'));
    const sandbox = await driver.runPodSandbox(pod, '');
    const mounts = [{ containerPath: '/volume', hostPath: '', readonly: true, image }];
    const command = ['/bin/sh', '-c', 'while :; do sleep 3600; done'];
    const id = await driver.createContainer(sandbox, containerConfig(image, command, { mounts }), pod);
    await driver.startContainer(id);
    const script = 'test -e /volume/bin/busybox && echo there; touch /volume/new || echo denied';
    const { stdout } = await driver.execSync(id, ['/bin/sh', '-c', script], 30);
    expect(String(stdout)).toBe('there\ndenied\n');
    await driver.stopContainer(id, 0);
  });
});
