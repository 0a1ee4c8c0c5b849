import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'vitest';
import type { VolumeCase } from './harness.ts';
import { VolumeError, type VolumeDriver, type VolumeRequest } from '../volume.ts';

/** Declares the tests for drivers that report volume usage. */
export function usageCases(test: VolumeCase, target: (request: VolumeRequest) => Parameters<VolumeDriver['unmount']>[0]): void {
  test(
    ['usage'],
    'reports usage of a mounted volume in integers, also after a restart',
    async ({ fixture: { driver, reopen }, request }) => {
      const requested = await request();
      const { hostPath, device = false } = await driver.mount(requested);
      const mounted = { ...target(requested), hostPath, device };
      for (const one of [driver, await reopen()]) {
        const { condition, ...usage } = (await one.usage?.(mounted)) ?? {};
        expect(usage.capacityBytes).toBeGreaterThan(0);
        for (const value of Object.values(usage)) expect(Number.isSafeInteger(value) && value >= 0).toBe(true);
        if (condition !== undefined) expect(condition).toEqual({ abnormal: false, message: expect.any(String) });
      }
      await driver.unmount(target(requested));
    },
  );

  test(['usage'], 'returns nothing or a VolumeError for a volume that is not mounted', async ({ fixture: { driver }, request }) => {
    const requested = await request();
    const { device = false } = await driver.mount(requested);
    await driver.unmount(target(requested));
    const gone = { ...target(requested), hostPath: join(requested.path, 'gone'), device };
    const outcome = await driver.usage?.(gone).catch((error: unknown) => error);
    if (outcome !== undefined) expect(outcome).toBeInstanceOf(VolumeError);
  });

  test(['usage', 'writing', 'private'], 'reports more after a write', async ({ fixture: { driver }, request }) => {
    const requested = await request();
    const { hostPath, device = false } = await driver.mount(requested);
    const mounted = { ...target(requested), hostPath, device };
    const before = await driver.usage?.(mounted);
    await writeFile(join(hostPath, 'much'), Buffer.alloc(256 * 1024, 7), { flush: true });
    const after = await driver.usage?.(mounted);
    expect((after?.usedBytes ?? 0) - (before?.usedBytes ?? 0)).toBeGreaterThanOrEqual(256 * 1024);
    expect((after?.inodesUsed ?? 0) - (before?.inodesUsed ?? 0)).toBe(1);
    await driver.unmount(target(requested));
  });
}
