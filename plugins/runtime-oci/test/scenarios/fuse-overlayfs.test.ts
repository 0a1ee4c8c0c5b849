import { accessSync, constants } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { findProgram } from '@oarlock/process-supervisor/host/host-tools';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { missingForRoot, missingForRunc, openRuntime, runcMode, type OciFixture } from '../support/fixture.ts';
import { containerConfig, podConfig } from '../support/pod.ts';

const patience = { timeout: 120_000, interval: 50 };
const unshareMode = { program: 'unshare', user: 'root' } as const;

function missingForFuse(): string | undefined {
  if (findProgram('fuse-overlayfs') === undefined) return 'fuse-overlayfs is not installed';
  try {
    accessSync('/dev/fuse', constants.W_OK);
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

const modes = [
  { name: 'root with runc', missing: missingForRunc() ?? missingForFuse(), mode: runcMode() },
  { name: 'root without', missing: missingForRoot() ?? missingForFuse(), mode: unshareMode },
] as const;

describe.each(modes)('root directories of fuse-overlayfs in the mode $name', ({ missing, mode }) => {
  let fixture: OciFixture;
  beforeEach(async ({ skip }) => {
    skip(missing !== undefined, missing);
    fixture = await openRuntime(mode, { snapshotter: 'fuse-overlayfs' });
  });
  afterEach(() => fixture?.dispose());

  it('have the files of all layers, keep what containers write, and outlive the supervisor', async () => {
    const { driver, dataDir, layeredImage, pull } = fixture;
    const image = await driver.pullImage(layeredImage, pull?.auth, undefined);
    const pod = podConfig(join(dataDir, 'logs'));
    const sandbox = await driver.runPodSandbox(pod, '');
    const mounts = [{ hostPath: '/bin/busybox', containerPath: '/bin/busybox', readonly: true }];
    const program =
      'busybox cat lower/file both/file; busybox test -e deleted || echo hidden; echo new > both/file; echo made > lower/made; while :; do busybox sleep 1; done';
    const id = await driver.createContainer(sandbox, containerConfig(image, ['/bin/busybox', 'sh', '-c', program], { mounts }), pod);
    await driver.startContainer(id);
    const { logPath } = await driver.containerStatus(id);
    await vi.waitFor(
      async () =>
        expect((await readFile(logPath, 'utf8')).split('\n').map((line) => line.split(' ').at(-1))).toEqual([
          'lower',
          'upper',
          'hidden',
          '',
        ]),
      patience,
    );
    const inContainer = async (...command: readonly string[]) =>
      String((await fixture.driver.execSync(id, ['/bin/busybox', ...command], 30)).stdout);
    expect(await inContainer('grep', ' / ', '/proc/mounts')).toMatch(/^\S+ \/ fuse\.fuse-overlayfs /);

    process.kill(fixture.supervisor(), 'SIGKILL');
    await vi.waitFor(async () => expect(await inContainer('cat', 'both/file', 'lower/made')).toBe('new\nmade\n'), patience);

    // the layers of the image are unchanged
    const other = await fixture.driver.createContainer(
      sandbox,
      containerConfig(image, ['/bin/busybox', 'cat', 'both/file'], {
        mounts,
        metadata: { name: 'other', attempt: 0 },
        logPath: 'other/0.log',
      }),
      pod,
    );
    await fixture.driver.startContainer(other);
    const otherLog = (await fixture.driver.containerStatus(other)).logPath;
    await vi.waitFor(async () => expect(await readFile(otherLog, 'utf8')).toMatch(/ upper\n$/), patience);
    const root = `/proc/self/mountinfo`;
    await fixture.driver.removePodSandbox(sandbox);
    expect(await readFile(root, 'utf8')).not.toContain(sandbox);
  });
});
