import { FakeClock } from '@oarlock/testing/fake-clock';
import type { Health } from '@oarlock/spi/role';
import { beforeEach, describe, expect, it } from 'vitest';
import { reportIntervalMs, reportSlowStart } from '../../src/process/slow-start.ts';

describe('a start that takes long', () => {
  let clock: FakeClock;
  let warnings: string[];
  let storage: Health | Error;
  let finish: () => void;
  beforeEach(() => {
    clock = new FakeClock();
    warnings = [];
    storage = { healthy: true };
  });

  const begin = () => {
    const work = new Promise<string>((resolve) => {
      finish = () => resolve('ready');
    });
    const checkStorage = async () => {
      if (storage instanceof Error) throw storage;
      return storage;
    };
    const parts = () => [
      { name: 'storage', checkHealth: checkStorage },
      { name: 'scheduler', checkHealth: () => ({ healthy: true }) as const },
    ];
    return reportSlowStart(work, { clock, parts, warn: (warning) => warnings.push(warning) });
  };

  it('is reported with what is not healthy, and again when that changes', async () => {
    const result = begin();
    storage = { healthy: false, reason: 'etcd has alarms: NOSPACE' };
    await clock.advance(reportIntervalMs - 1);
    expect(warnings).toEqual([]);
    await clock.advance(1);
    await clock.advance(3 * reportIntervalMs);
    expect(warnings).toEqual(['not ready yet: storage: etcd has alarms: NOSPACE']);
    storage = new Error('no answer');
    await clock.advance(reportIntervalMs);
    expect(warnings.slice(1)).toEqual(['not ready yet: storage: no answer']);
    finish();
    expect(await result).toBe('ready');
    storage = { healthy: false, reason: 'full' };
    await clock.advance(3 * reportIntervalMs);
    expect(warnings).toHaveLength(2);
  });

  it('is reported without a reason if everything is healthy', async () => {
    const result = begin();
    await clock.advance(2 * reportIntervalMs);
    expect(warnings).toEqual(['not ready yet: the start takes longer than usual']);
    finish();
    await result;
  });

  it('is not reported once it has failed', async () => {
    const failed = reportSlowStart(Promise.reject(new Error('no')), { clock, parts: () => [], warn: (warning) => warnings.push(warning) });
    await expect(failed).rejects.toThrow('no');
    await clock.advance(2 * reportIntervalMs);
    expect(warnings).toEqual([]);
  });
});
