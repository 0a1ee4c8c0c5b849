import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { hugepagesOf } from '../src/node/machine.ts';
import { linuxResources, sandboxResources } from '../src/resources.ts';
import { EmptyDirDriver } from '../src/volumes/empty-dir.ts';
import { app, podOf } from './bench.ts';

describe('huge pages', () => {
  let directory: string;
  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'oarlock-huge-'));
  });
  afterEach(() => rmSync(directory, { recursive: true, force: true }));
  const using = (limits: Readonly<Record<string, string>>) =>
    podOf('web', { containers: [app({ resources: { limits, requests: limits } })] });

  it('are what the machine has set aside, by their sizes', async () => {
    const shown = async () =>
      Object.fromEntries(Object.entries(await hugepagesOf(directory)).map(([name, amount]) => [name, String(amount)]));
    expect(await shown()).toEqual({ 'hugepages-1Gi': '0', 'hugepages-2Mi': '0' });
    for (const [name, count] of [
      ['hugepages-2048kB', '512\n'],
      ['hugepages-1048576kB', '0\n'],
      ['hugepages-64kB', '3\n'],
      ['other', '7\n'],
    ] as const) {
      mkdirSync(join(directory, name));
      writeFileSync(join(directory, name, 'nr_hugepages'), count);
    }
    expect(await shown()).toEqual({ 'hugepages-1Gi': '0', 'hugepages-2Mi': '1Gi', 'hugepages-64Ki': '192Ki' });
  });

  it('are limited for each container', () => {
    const pod = using({ cpu: '1', memory: '64Mi', 'hugepages-2Mi': '8Mi' });
    const [container = app({})] = pod.spec?.containers ?? [];
    expect(linuxResources(pod, container, { memoryCapacity: 2 ** 30, cgroupV2: false }).hugepageLimits).toEqual([
      { pageSize: '2MB', limit: 8 * 2 ** 20 },
    ]);
  });

  it('are of one size in a volume, which the pod has to say', async () => {
    const mount = (limits: Readonly<Record<string, string>>) => {
      const volume = { name: 'huge', emptyDir: { medium: 'HugePages' } };
      return new EmptyDirDriver().mount({ pod: using(limits), volume, path: join(directory, 'volume'), readOnly: false });
    };
    await expect(mount({ cpu: '1' })).rejects.toThrow('medium "HugePages" needs containers with huge pages of one size; there are 0');
    await expect(mount({ 'hugepages-2Mi': '2Mi', 'hugepages-1Gi': '1Gi' })).rejects.toThrow(/of one size; there are 2$/);
  });
});

describe('what a sandbox may take', () => {
  it('is told to runtimes that make a machine for each pod, and what their class adds beside it', () => {
    const limits = { cpu: '500m', memory: '64Mi' };
    const pod = podOf('web', {
      containers: [app({ resources: { limits, requests: limits } }), app({ name: 'b', resources: { limits, requests: limits } })],
      overhead: { cpu: '250m', memory: '120Mi' },
    });
    expect(sandboxResources(pod)).toEqual({
      resources: { cpuShares: 1024, cpuPeriod: 100_000, cpuQuota: 100_000, memoryLimitBytes: 128 * 2 ** 20 },
      overhead: { cpuPeriod: 100_000, cpuQuota: 25_000, memoryLimitBytes: 120 * 2 ** 20 },
    });
    expect(sandboxResources(podOf('bare'))).toEqual({ resources: { cpuShares: 2 } });
  });
});
