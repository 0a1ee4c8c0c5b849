import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { hugepagesOf } from '../../src/node/machine.ts';
import { linuxResources, sandboxResources } from '../../src/pod-util/resources.ts';
import { EmptyDirDriver } from '../../src/volumes/internal/empty-dir.ts';
import { app, podOf } from '../support/bench.ts';

describe('huge pages', () => {
  let directory: string;
  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'oarlock-huge-'));
  });
  afterEach(() => rmSync(directory, { recursive: true, force: true }));
  const podWith = (limits: Readonly<Record<string, string>>) =>
    podOf('web', { containers: [app({ resources: { limits, requests: limits } })] });

  it('of the machine are node resources by size', async () => {
    const resources = async () =>
      Object.fromEntries(Object.entries(await hugepagesOf(directory)).map(([name, amount]) => [name, String(amount)]));
    expect(await resources()).toEqual({ 'hugepages-1Gi': '0', 'hugepages-2Mi': '0' });
    for (const [name, count] of [
      ['hugepages-2048kB', '512\n'],
      ['hugepages-1048576kB', '0\n'],
      ['hugepages-64kB', '3\n'],
      ['other', '7\n'],
    ] as const) {
      mkdirSync(join(directory, name));
      writeFileSync(join(directory, name, 'nr_hugepages'), count);
    }
    expect(await resources()).toEqual({ 'hugepages-1Gi': '0', 'hugepages-2Mi': '1Gi', 'hugepages-64Ki': '192Ki' });
  });

  it('are limited per container', () => {
    const pod = podWith({ cpu: '1', memory: '64Mi', 'hugepages-2Mi': '8Mi' });
    const [container = app({})] = pod.spec?.containers ?? [];
    expect(linuxResources(pod, container, { memoryCapacity: 2 ** 30, cgroupV2: false }).hugepageLimits).toEqual([
      { pageSize: '2MB', limit: 8 * 2 ** 20 },
    ]);
  });

  it('of a volume need a single size in the limits of the pod', async () => {
    const mount = (limits: Readonly<Record<string, string>>) => {
      const volume = { name: 'huge', emptyDir: { medium: 'HugePages' } };
      return new EmptyDirDriver().mount({ pod: podWith(limits), volume, path: join(directory, 'volume'), readOnly: false });
    };
    await expect(mount({ cpu: '1' })).rejects.toThrow('medium "HugePages" needs containers with huge pages of one size; there are 0');
    await expect(mount({ 'hugepages-2Mi': '2Mi', 'hugepages-1Gi': '1Gi' })).rejects.toThrow(/of one size; there are 2$/);
  });
});

describe('sandboxResources', () => {
  it('returns the resources of all containers and the overhead, for runtimes with a VM per pod', () => {
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
