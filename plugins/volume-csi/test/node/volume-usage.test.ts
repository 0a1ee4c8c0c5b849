import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Faults } from '@oarlock/csi-hostpath/faults';
import type { NodeVolumeStats } from '@oarlock/csi/csi-types';
import type { VolumeRequest } from '@oarlock/spi/volume';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { CsiDriver } from '../../src/driver/csi-driver.ts';
import type { VolumeCsi } from '../../src/volume-csi.ts';
import { usageOf, volumeUsage } from '../../src/node/volume-usage.ts';
import { driverName, until, World } from '../support/csi-environment.ts';

describe('volumeUsage', () => {
  let world: World;
  let plugin: VolumeCsi;
  let request: VolumeRequest;
  let directory: string;
  let faults: string;
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'volume-usage-'));
    faults = join(directory, 'faults.json');
    world = await World.open({ driver: { faults: new Faults(faults) } });
    plugin = await world.plugin();
    const volume = await world.bind(await world.claim('data'));
    request = world.request('one', { name: 'data', persistentVolumeClaim: { claimName: 'data' } }, volume);
  });
  afterEach(async () => {
    await plugin.unmount(request);
    await world[Symbol.asyncDispose]();
    await rm(directory, { recursive: true, force: true });
  });
  const mounted = async () => {
    const { hostPath } = await plugin.mount(request);
    return { podUid: 'uid-one', volumeName: 'data', path: request.path, hostPath, device: false };
  };

  it('returns what the driver reports', async () => {
    const usage = await plugin.usage(await mounted());
    expect(usage).toEqual({
      capacityBytes: expect.any(Number),
      usedBytes: expect.any(Number),
      availableBytes: expect.any(Number),
      inodes: expect.any(Number),
      inodesUsed: expect.any(Number),
      inodesFree: expect.any(Number),
      condition: { abnormal: false, message: 'the volume is healthy' },
    });
    expect(usage?.capacityBytes).toBeGreaterThan(0);
  });

  it("fails with the driver's error", async () => {
    const target = await mounted();
    await writeFile(faults, JSON.stringify({ NodeGetVolumeStats: { code: 'INTERNAL' } }));
    await expect(plugin.usage(target)).rejects.toMatchObject({
      name: 'VolumeError',
      code: 'Failed',
      message: expect.stringMatching(/^NodeGetVolumeStats failed for volume ".+" : rpc error: code = Internal desc = /),
    });
    expect(await plugin.usage(target)).toHaveProperty('capacityBytes');
  });

  it('can be aborted if the driver hangs, and the volume can be unmounted in the meantime', async () => {
    const target = await mounted();
    await writeFile(faults, JSON.stringify({ NodeGetVolumeStats: { hold: 'before' } }));
    const abort = new AbortController();
    const asked = plugin.usage(target, { signal: abort.signal });
    const outcome = asked.catch((error: unknown) => error);
    const mark = `${faults}.NodeGetVolumeStats`;
    await until(() => existsSync(mark) || undefined);
    await plugin.unmount(request);
    abort.abort(new Error('too long'));
    expect(await outcome).toMatchObject({ message: 'too long' });
    await rm(mark);
    expect(await plugin.usage(target)).toBeUndefined();
  });

  it('does not call a driver that lacks the capability or is not registered', async () => {
    const target = await mounted();
    const unable = { name: driverName, nodeCapabilities: new Set(['STAGE_UNSTAGE_VOLUME']) } as unknown as CsiDriver;
    expect(await volumeUsage(target, new Map([[driverName, unable]]))).toBeUndefined();
    await expect(volumeUsage(target, new Map())).rejects.toMatchObject({ name: 'VolumeError', code: 'NotReady' });
  });
});

describe('usageOf', () => {
  const bytes = { unit: 'BYTES', total: 10, used: 4, available: 5 } as const;
  const answer: NodeVolumeStats = { usage: [bytes], volumeCondition: { abnormal: true, message: 'lost' } };

  it('has a condition if the driver has the capability', () => {
    const usage = { capacityBytes: 10, usedBytes: 4, availableBytes: 5 };
    expect(usageOf(answer, true)).toEqual({ ...usage, condition: { abnormal: true, message: 'lost' } });
    expect(usageOf(answer, false)).toEqual(usage);
  });

  it('rejects negative values', () => {
    expect(() => usageOf({ usage: [{ ...bytes, used: -1 }] }, false)).toThrow('the driver reports -1 as used BYTES of a volume');
  });
});
