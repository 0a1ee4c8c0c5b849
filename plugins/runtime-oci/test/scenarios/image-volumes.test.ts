import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  missingForMappedUsers,
  missingForRoot,
  missingForRunc,
  missingForUser,
  openRuntime,
  runcMode,
  type OciFixture,
} from '../support/fixture.ts';
import { containerConfig, podConfig } from '../support/pod.ts';

const unshare = (user: 'root' | 'user') => ({ program: 'unshare', user }) as const;
const modes = [
  { name: 'root with runc', missing: missingForRunc(), open: () => openRuntime(runcMode()) },
  { name: 'root without', missing: missingForRoot(), open: () => openRuntime(unshare('root')) },
  {
    name: 'user with newuidmap',
    missing: missingForMappedUsers(),
    open: () => openRuntime({ ...runcMode(), mapped: true }, { mapped: true }),
  },
  { name: 'user without', missing: missingForUser(), open: () => openRuntime(unshare('user')) },
];

describe.each(modes)('an image volume in the mode $name', ({ name, missing, open }) => {
  describe.skipIf(missing !== undefined)(`containers${missing === undefined ? '' : ` (${missing})`}`, () => {
    let fixture: OciFixture;
    let layered: string;
    beforeAll(async () => {
      fixture = await open();
      layered = await fixture.driver.pullImage(fixture.layeredImage, fixture.pull?.auth, undefined);
    });
    afterAll(() => fixture.dispose());

    /** Runs a script in a container with volumes of images. */
    const run = async (
      script: string,
      volumes: readonly { readonly image: string; readonly path: string; readonly subPath?: string }[],
    ) => {
      const { driver, dataDir, image } = fixture;
      const pod = podConfig(join(dataDir, 'logs'));
      const sandbox = await driver.runPodSandbox(pod, '');
      try {
        const mounts = volumes.map(({ image: source, path: containerPath, subPath }) => {
          return { containerPath, hostPath: '', readonly: true, image: source, ...(subPath !== undefined && { imageSubPath: subPath }) };
        });
        const command = ['/bin/sh', '-c', 'while :; do sleep 3600; done'];
        const id = await driver.createContainer(sandbox, containerConfig(image, command, { mounts }), pod);
        await driver.startContainer(id);
        return String((await driver.execSync(id, ['/bin/sh', '-c', script], 30)).stdout);
      } finally {
        await driver.removePodSandbox(sandbox);
      }
    };

    it('has the files of an image of one layer, read-only', async () => {
      const script = 'test -e /volume/bin/busybox && echo there; touch /volume/new || echo denied';
      expect(await run(script, [{ image: fixture.image, path: '/volume' }])).toBe('there\ndenied\n');
    });

    it('has the merged files of an image of two layers, read-only, whole and below a path', async () => {
      const script = 'cat /whole/lower/file /whole/both/file /part/file; ls /whole; touch /whole/new || echo denied';
      const volumes = [
        { image: layered, path: '/whole' },
        { image: layered, path: '/part', subPath: 'both' },
      ];
      expect(await run(script, volumes)).toBe('lower\nupper\nupper\nboth\nlink\nlower\ndenied\n');
    });

    it('is rejected with the path that the image lacks', async () => {
      for (const subPath of ['missing', 'deleted', 'lower/missing'])
        await expect(run('true', [{ image: layered, path: '/part', subPath }])).rejects.toThrow(`the image has no path "${subPath}"`);
    });

    it('follows links of the image inside of it, or rejects them', async () => {
      const volume = { image: layered, path: '/part', subPath: 'link' };
      if (name === 'user without')
        await expect(run('true', [volume])).rejects.toThrow('links in the path "link" of an image volume need root');
      else expect(await run('cat /part/file', [volume])).toBe('lower\n');
    });
  });
});
