import { Runtime, type RuntimeDriver } from '@oarlock/spi/runtime';
import { describe, expect, it } from 'vitest';
import type { Composition } from '../../src/composition/compose.ts';
import { imageNotices, isolationWarnings } from '../../src/composition/runtime-reports.ts';

function composed(roles: readonly string[], drivers: Readonly<Record<string, object>>): Pick<Composition, 'plan' | 'host'> {
  const runtimes = new Map(Object.entries(drivers) as [string, RuntimeDriver][]);
  const host = { get: (slot: unknown) => (slot === Runtime ? runtimes : undefined) };
  return { plan: { roles }, host } as unknown as Pick<Composition, 'plan' | 'host'>;
}
const support = (available: boolean, detail: string) => ({ imageSupport: () => Promise.resolve({ available, detail }) });

describe('what runtimes report to the user', () => {
  const drivers = {
    plain: {},
    open: { isolation: () => Promise.resolve({ enforced: false, reason: 'the kernel denies it' }) },
    good: support(true, 'containers run with runc'),
    bad: support(false, 'the kernel denies user namespaces'),
  };

  it('is how images run, or why they do not', async () => {
    expect(await imageNotices(composed(['kubelet'], drivers))).toEqual([
      'Images: containers run with runc (good).',
      'Images cannot be run, only the image "host" for processes: the kernel denies user namespaces (bad).',
    ]);
  });

  it('is which runtimes do not isolate pods', async () => {
    expect(await isolationWarnings(composed(['kubelet'], drivers))).toEqual(['open: pods run without isolation: the kernel denies it']);
  });

  it('is nothing without a kubelet', async () => {
    expect(await imageNotices(composed(['apiserver'], drivers))).toEqual([]);
    expect(await isolationWarnings(composed(['apiserver'], drivers))).toEqual([]);
  });
});
