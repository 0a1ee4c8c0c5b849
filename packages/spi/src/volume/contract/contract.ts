import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { isAbsolute, join } from 'node:path';
import type { Pod } from '@oarlock/api/types/core-v1';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { VolumeError, type VolumeRequest } from '../volume.ts';
import type { VolumeCase, VolumeFixture, VolumeHarness } from './harness.ts';
import { usageCases } from './usage.ts';

export type { SampleVolume, VolumeCapability, VolumeFixture } from './harness.ts';

const target = ({ pod, volume, path }: VolumeRequest) => ({ podUid: pod.metadata?.uid ?? '', volumeName: volume.name, path });

/**
 * Declares the tests that every volume driver must pass. Call it once per driver, and once per decorator of a driver.
 *
 * `unavailable` is the reason why the driver cannot work on this machine; the suite then is one skipped test.
 */
export function volumeContract(
  name: string,
  open: () => Promise<VolumeFixture>,
  { unavailable }: { readonly unavailable?: string } = {},
): void {
  describe(`volume/v1 contract: ${name}`, { timeout: 300_000 }, () => {
    if (unavailable !== undefined) {
      it('works on this machine', (context) => {
        context.skip(unavailable);
      });
      return;
    }
    let fixture: VolumeFixture;
    let directory: string;
    beforeAll(async () => {
      fixture = await open();
      directory = await mkdtemp(join(tmpdir(), 'oarlock-volume-'));
    });
    afterAll(async () => {
      await fixture.dispose?.();
      await rm(directory, { recursive: true, force: true });
    });

    const request: VolumeHarness['request'] = async ({ pod = randomUUID(), name: volumeName = 'data', fsGroup, sample } = {}) => {
      const { volume, persistentVolume } = sample ?? (await fixture.sample(volumeName));
      const object: Pod = {
        apiVersion: 'v1',
        kind: 'Pod',
        metadata: { name: `pod-${pod.slice(0, 8)}`, namespace: 'default', uid: pod, labels: { app: 'contract' }, annotations: {} },
        spec: {
          serviceAccountName: 'default',
          containers: [{ name: 'app', image: 'app', volumeMounts: [{ name: volumeName, mountPath: '/data' }] }],
          volumes: [volume],
        },
      };
      return {
        pod: object,
        volume,
        path: join(directory, pod, volumeName),
        readOnly: false,
        ...(persistentVolume && { persistentVolume }),
        ...(fsGroup !== undefined && { fsGroup }),
      };
    };
    const test: VolumeCase = (needed, title, body) => {
      it(title, async (context) => {
        for (const capability of needed) {
          const reason = fixture.unsupported?.[capability];
          if (reason !== undefined) context.skip(`${capability} is not supported: ${reason}`);
        }
        await body({ fixture, request });
      });
    };

    test([], 'supports its own kind and no other', async ({ fixture: { driver } }) => {
      const { volume, persistentVolume } = await request();
      expect(driver.supports(volume, persistentVolume)).toBe(true);
      expect(driver.supports({ name: 'data', nfs: { server: 'nowhere', path: '/' } }, undefined)).toBe(false);
    });

    test([], 'returns an existing host path', async ({ fixture: { driver } }) => {
      const requested = await request();
      const { hostPath } = await driver.mount(requested);
      expect(isAbsolute(hostPath)).toBe(true);
      await stat(hostPath);
      await driver.unmount(target(requested));
    });

    test([], 'returns the same path if the volume is already mounted', async ({ fixture: { driver } }) => {
      const requested = await request();
      const first = await driver.mount(requested);
      expect(await driver.mount(requested)).toEqual(first);
      await driver.unmount(target(requested));
    });

    test(['writing'], 'keeps the content when it is mounted again', async ({ fixture: { driver } }) => {
      const requested = await request();
      const { hostPath } = await driver.mount(requested);
      await writeFile(join(hostPath, 'note'), 'kept');
      await driver.mount(requested);
      expect(await readFile(join(hostPath, 'note'), 'utf8')).toBe('kept');
      await driver.unmount(target(requested));
    });

    test(['writing', 'private'], 'separates volumes of two pods, and two volumes of one pod', async ({ fixture: { driver } }) => {
      const pod = randomUUID();
      const all = [await request({ pod }), await request({ pod, name: 'other' }), await request()];
      const paths = await Promise.all(all.map(async (requested) => (await driver.mount(requested)).hostPath));
      expect(new Set(paths).size).toBe(3);
      await writeFile(join(paths[0] ?? '', 'note'), 'mine');
      expect(existsSync(join(paths[1] ?? '', 'note'))).toBe(false);
      expect(existsSync(join(paths[2] ?? '', 'note'))).toBe(false);
      await driver.unmount(target(all[1] as VolumeRequest));
      await driver.unmount(target(all[2] as VolumeRequest));
      expect(await readFile(join(paths[0] ?? '', 'note'), 'utf8')).toBe('mine');
      await driver.unmount(target(all[0] as VolumeRequest));
    });

    test([], 'leaves nothing behind after unmount, which is idempotent', async ({ fixture: { driver } }) => {
      const requested = await request();
      await driver.unmount(target(requested));
      await driver.mount(requested);
      await driver.unmount(target(requested));
      expect(existsSync(requested.path) ? await readdir(requested.path) : []).toEqual([]);
      await driver.unmount(target(requested));
    });

    test(['writing', 'private'], 'is empty for the next pod', async ({ fixture: { driver } }) => {
      const requested = await request();
      const { hostPath } = await driver.mount(requested);
      await writeFile(join(hostPath, 'note'), 'old');
      await driver.unmount(target(requested));
      const again = await driver.mount(requested);
      expect(existsSync(join(again.hostPath, 'note'))).toBe(false);
      await driver.unmount(target(requested));
    });

    test([], 'continues after a restart with its state on disk', async ({ fixture: { driver, reopen } }) => {
      const requested = await request();
      const first = await driver.mount(requested);
      const files = await readdir(first.hostPath);
      const next = await reopen();
      expect(await next.mount(requested)).toEqual(first);
      expect(await readdir(first.hostPath)).toEqual(files);
      const last = await reopen();
      await last.unmount(target(requested));
      expect(existsSync(requested.path) ? await readdir(requested.path) : []).toEqual([]);
    });

    test(['refusal'], 'rejects a broken volume with a VolumeError, and can unmount it', async ({ fixture: { driver, broken } }) => {
      if (!broken) throw new Error('refusal is supported, but the fixture has no broken volume');
      const requested = await request({ sample: broken('data') });
      const error = await driver.mount(requested).then(
        () => undefined,
        (reason: unknown) => reason,
      );
      expect(error).toBeInstanceOf(VolumeError);
      expect(['NotFound', 'InvalidArgument', 'NotReady', 'Failed', 'ResourceExhausted']).toContain((error as VolumeError).code);
      await driver.unmount(target(requested));
    });

    test(
      ['refreshing'],
      'returns its source objects, and shows their changes when it is mounted again',
      async ({ fixture: { driver, change } }) => {
        if (!change) throw new Error('refreshing is supported, but the fixture cannot change anything');
        expect(driver.requiresRemount).toBe(true);
        const requested = await request();
        for (const { kind, key } of driver.sourceObjects?.(requested) ?? []) {
          expect(['ConfigMap', 'Secret']).toContain(kind);
          expect(key).toMatch(/^default\/.+/);
        }
        const { hostPath } = await driver.mount(requested);
        const files = await change();
        expect(await driver.mount(requested)).toEqual({ hostPath });
        const visible = (await readdir(hostPath)).filter((file) => !file.startsWith('..')).sort();
        expect(visible).toEqual(Object.keys(files).sort());
        for (const [file, text] of Object.entries(files)) expect(await readFile(join(hostPath, file), 'utf8')).toBe(text);
        await driver.unmount(target(requested));
      },
    );

    test(['refreshing'], 'never shows a part of a change', async ({ fixture: { driver, change } }) => {
      if (!change) throw new Error('refreshing is supported, but the fixture cannot change anything');
      const requested = await request();
      const { hostPath } = await driver.mount(requested);
      let over = false;
      const broken: string[] = [];
      const reading = (async () => {
        while (!over) {
          for (const file of (await readdir(hostPath)).filter((one) => !one.startsWith('..'))) {
            // a file may be removed between the two calls, but while it exists it has content
            const text = await readFile(join(hostPath, file), 'utf8').catch(() => undefined);
            if (text === '') broken.push(file);
          }
        }
      })();
      for (let round = 0; round < 20; round += 1) {
        await change();
        await driver.mount(requested);
      }
      over = true;
      await reading;
      expect(broken).toEqual([]);
      await driver.unmount(target(requested));
    });

    usageCases(test, target);

    test(['fsGroup'], 'gives files to the fsGroup', async ({ fixture: { driver } }) => {
      const requested = await request({ fsGroup: 4321 });
      const { hostPath } = await driver.mount(requested);
      const files = (await readdir(hostPath)).filter((file) => !file.startsWith('..'));
      for (const path of files.length > 0 ? files.map((file) => join(hostPath, file)) : [hostPath]) {
        const { gid, mode } = await stat(path);
        expect(gid).toBe(4321);
        expect(mode & 0o040).toBe(0o040);
      }
      expect(await driver.mount(requested)).toEqual({ hostPath });
      await driver.unmount(target(requested));
    });
  });
}
