import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'vitest';
import type { VolumeCase } from './volume.contract.ts';
import { VolumeError, type VolumeDriver, type VolumeRequest } from './volume.ts';

/** What drivers promise that tell what their volumes hold. */
export function usageCases(test: VolumeCase, target: (request: VolumeRequest) => Parameters<VolumeDriver['unmount']>[0]): void {
  test(
    ['usage'],
    'tells what is mounted holds, in whole numbers, and as well after a restart',
    async ({ fixture: { driver, reopen }, request }) => {
      const asked = await request();
      const { hostPath, device = false } = await driver.mount(asked);
      const mounted = { ...target(asked), hostPath, device };
      for (const one of [driver, await reopen()]) {
        const { condition, ...amounts } = (await one.usage?.(mounted)) ?? {};
        expect(amounts.capacityBytes).toBeGreaterThan(0);
        for (const amount of Object.values(amounts)) expect(Number.isSafeInteger(amount) && amount >= 0).toBe(true);
        if (condition !== undefined) expect(condition).toEqual({ abnormal: false, message: expect.any(String) });
      }
      await driver.unmount(target(asked));
    },
  );

  test(['usage'], 'tells nothing of what is not mounted, and does not hang on it', async ({ fixture: { driver }, request }) => {
    const asked = await request();
    const { device = false } = await driver.mount(asked);
    await driver.unmount(target(asked));
    const gone = { ...target(asked), hostPath: join(asked.path, 'gone'), device };
    const outcome = await driver.usage?.(gone).catch((error: unknown) => error);
    if (outcome !== undefined) expect(outcome).toBeInstanceOf(VolumeError);
  });

  test(['usage', 'writing', 'private'], 'tells of more when more is written', async ({ fixture: { driver }, request }) => {
    const asked = await request();
    const { hostPath, device = false } = await driver.mount(asked);
    const mounted = { ...target(asked), hostPath, device };
    const before = await driver.usage?.(mounted);
    await writeFile(join(hostPath, 'much'), Buffer.alloc(256 * 1024, 7), { flush: true });
    const after = await driver.usage?.(mounted);
    expect((after?.usedBytes ?? 0) - (before?.usedBytes ?? 0)).toBeGreaterThanOrEqual(256 * 1024);
    expect((after?.inodesUsed ?? 0) - (before?.inodesUsed ?? 0)).toBe(1);
    await driver.unmount(target(asked));
  });
}
