import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { isAbsolute, join } from 'node:path';
import type { PersistentVolume, Pod, Volume } from '@oarlock/api/types/core-v1';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { usageCases } from './volume.contract.usage.ts';
import { VolumeError, type VolumeDriver, type VolumeRequest } from './volume.ts';

/** What a driver may be unable to do. Everything is claimed unless the fixture says why not. */
export type VolumeCapability =
  /** Pods can write to the volume. */
  | 'writing'
  /** Each pod has a volume of its own, empty at first, and gone with the pod. */
  | 'private'
  /** A volume that cannot be made ready is refused. */
  | 'refusal'
  /** The content follows API objects. */
  | 'refreshing'
  /** It is told what a mounted volume holds. */
  | 'usage'
  /** A group is given the volume's files. Needs root. */
  | 'fsGroup';

/** One volume as a pod's spec and the API describe it. */
export interface SampleVolume {
  readonly volume: Volume;
  readonly persistentVolume?: PersistentVolume;
}

export interface VolumeFixture {
  readonly driver: VolumeDriver;
  /** A volume of the driver's kind, with this name. Each call may describe the same content. */
  sample(name: string): Promise<SampleVolume> | SampleVolume;
  /** A volume of the driver's kind that cannot be made ready. Needed for `refusal`. */
  broken?(name: string): SampleVolume;
  /** Changes the objects behind every sample; returns the files that it holds from then on. Needed for `refreshing`. */
  change?(): Promise<Readonly<Record<string, string>>>;
  /** The same driver as another process would have it: nothing that was only in memory is left. */
  reopen(): Promise<VolumeDriver>;
  readonly lacks?: Partial<Readonly<Record<VolumeCapability, string>>>;
  dispose?(): Promise<void>;
}

/** What a case has to work with. */
export interface VolumeBench {
  readonly fixture: VolumeFixture;
  request(options?: {
    readonly pod?: string;
    readonly name?: string;
    readonly fsGroup?: number;
    readonly sample?: SampleVolume;
  }): Promise<VolumeRequest>;
}

/** Makes a test of a case; it is skipped, with the reason, where the driver lacks something that is needed. */
export type VolumeCase = (needed: readonly VolumeCapability[], title: string, body: (bench: VolumeBench) => Promise<void>) => void;

const target = ({ pod, volume, path }: VolumeRequest) => ({ podUid: pod.metadata?.uid ?? '', volumeName: volume.name, path });

/**
 * What every volume driver promises. Call it once per driver, and once per decorator of a driver.
 * `unavailable` is the reason why the driver cannot work on this machine: the suite is then one visible skip.
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

    const request: VolumeBench['request'] = async ({ pod = randomUUID(), name: volumeName = 'data', fsGroup, sample } = {}) => {
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
          const reason = fixture.lacks?.[capability];
          if (reason !== undefined) context.skip(`${capability} is not claimed: ${reason}`);
        }
        await body({ fixture, request });
      });
    };

    test([], 'knows its own kind and no other', async ({ fixture: { driver } }) => {
      const { volume, persistentVolume } = await request();
      expect(driver.supports(volume, persistentVolume)).toBe(true);
      expect(driver.supports({ name: 'data', nfs: { server: 'nowhere', path: '/' } }, undefined)).toBe(false);
    });

    test([], 'gives a path of the host that is there', async ({ fixture: { driver } }) => {
      const asked = await request();
      const { hostPath } = await driver.mount(asked);
      expect(isAbsolute(hostPath)).toBe(true);
      await stat(hostPath);
      await driver.unmount(target(asked));
    });

    test([], 'mounts what is mounted already, also at the same time, and gives the same path', async ({ fixture: { driver } }) => {
      const asked = await request();
      const first = await driver.mount(asked);
      expect(await driver.mount(asked)).toEqual(first);
      await driver.unmount(target(asked));
    });

    test(['writing'], 'keeps what was written when it is mounted again', async ({ fixture: { driver } }) => {
      const asked = await request();
      const { hostPath } = await driver.mount(asked);
      await writeFile(join(hostPath, 'note'), 'kept');
      await driver.mount(asked);
      expect(await readFile(join(hostPath, 'note'), 'utf8')).toBe('kept');
      await driver.unmount(target(asked));
    });

    test(['writing', 'private'], 'keeps the volumes of two pods, and two volumes of one pod, apart', async ({ fixture: { driver } }) => {
      const pod = randomUUID();
      const all = [await request({ pod }), await request({ pod, name: 'other' }), await request()];
      const paths = await Promise.all(all.map(async (asked) => (await driver.mount(asked)).hostPath));
      expect(new Set(paths).size).toBe(3);
      await writeFile(join(paths[0] ?? '', 'note'), 'mine');
      expect(existsSync(join(paths[1] ?? '', 'note'))).toBe(false);
      expect(existsSync(join(paths[2] ?? '', 'note'))).toBe(false);
      await driver.unmount(target(all[1] as VolumeRequest));
      await driver.unmount(target(all[2] as VolumeRequest));
      expect(await readFile(join(paths[0] ?? '', 'note'), 'utf8')).toBe('mine');
      await driver.unmount(target(all[0] as VolumeRequest));
    });

    test([], 'leaves nothing behind when it is unmounted, and unmounts what is gone or never was', async ({ fixture: { driver } }) => {
      const asked = await request();
      await driver.unmount(target(asked));
      await driver.mount(asked);
      await driver.unmount(target(asked));
      expect(existsSync(asked.path) ? await readdir(asked.path) : []).toEqual([]);
      await driver.unmount(target(asked));
    });

    test(['writing', 'private'], 'is empty again for the next pod', async ({ fixture: { driver } }) => {
      const asked = await request();
      const { hostPath } = await driver.mount(asked);
      await writeFile(join(hostPath, 'note'), 'old');
      await driver.unmount(target(asked));
      const again = await driver.mount(asked);
      expect(existsSync(join(again.hostPath, 'note'))).toBe(false);
      await driver.unmount(target(asked));
    });

    test([], 'goes on after a restart with what it finds on the disk', async ({ fixture: { driver, reopen } }) => {
      const asked = await request();
      const first = await driver.mount(asked);
      const files = await readdir(first.hostPath);
      const next = await reopen();
      expect(await next.mount(asked)).toEqual(first);
      expect(await readdir(first.hostPath)).toEqual(files);
      const last = await reopen();
      await last.unmount(target(asked));
      expect(existsSync(asked.path) ? await readdir(asked.path) : []).toEqual([]);
    });

    test(
      ['refusal'],
      'refuses what cannot be made ready with a VolumeError, and can be unmounted then',
      async ({ fixture: { driver, broken } }) => {
        if (!broken) throw new Error('refusal is claimed, but the fixture has no broken volume');
        const asked = await request({ sample: broken('data') });
        const error = await driver.mount(asked).then(
          () => undefined,
          (reason: unknown) => reason,
        );
        expect(error).toBeInstanceOf(VolumeError);
        expect(['NotFound', 'InvalidArgument', 'NotReady', 'Failed']).toContain((error as VolumeError).code);
        await driver.unmount(target(asked));
      },
    );

    test(
      ['refreshing'],
      'says which objects it is made from, and follows them when it is mounted again',
      async ({ fixture: { driver, change } }) => {
        if (!change) throw new Error('refreshing is claimed, but the fixture cannot change anything');
        expect(driver.refreshes).toBe(true);
        const asked = await request();
        for (const { kind, key } of driver.sources?.(asked) ?? []) {
          expect(['ConfigMap', 'Secret']).toContain(kind);
          expect(key).toMatch(/^default\/.+/);
        }
        const { hostPath } = await driver.mount(asked);
        const files = await change();
        expect(await driver.mount(asked)).toEqual({ hostPath });
        const visible = (await readdir(hostPath)).filter((file) => !file.startsWith('..')).sort();
        expect(visible).toEqual(Object.keys(files).sort());
        for (const [file, text] of Object.entries(files)) expect(await readFile(join(hostPath, file), 'utf8')).toBe(text);
        await driver.unmount(target(asked));
      },
    );

    test(['refreshing'], 'never shows a reader half of a change', async ({ fixture: { driver, change } }) => {
      if (!change) throw new Error('refreshing is claimed, but the fixture cannot change anything');
      const asked = await request();
      const { hostPath } = await driver.mount(asked);
      let over = false;
      const broken: string[] = [];
      const reading = (async () => {
        while (!over) {
          for (const file of (await readdir(hostPath)).filter((one) => !one.startsWith('..'))) {
            // a name may go between the two calls, but while it is there it has content
            const text = await readFile(join(hostPath, file), 'utf8').catch(() => undefined);
            if (text === '') broken.push(file);
          }
        }
      })();
      for (let round = 0; round < 20; round += 1) {
        await change();
        await driver.mount(asked);
      }
      over = true;
      await reading;
      expect(broken).toEqual([]);
      await driver.unmount(target(asked));
    });

    usageCases(test, target);

    test(['fsGroup'], "lets the pod's group use it", async ({ fixture: { driver } }) => {
      const asked = await request({ fsGroup: 4321 });
      const { hostPath } = await driver.mount(asked);
      const files = (await readdir(hostPath)).filter((file) => !file.startsWith('..'));
      for (const path of files.length > 0 ? files.map((file) => join(hostPath, file)) : [hostPath]) {
        const { gid, mode } = await stat(path);
        expect(gid).toBe(4321);
        expect(mode & 0o040).toBe(0o040);
      }
      expect(await driver.mount(asked)).toEqual({ hostPath });
      await driver.unmount(target(asked));
    });
  });
}
