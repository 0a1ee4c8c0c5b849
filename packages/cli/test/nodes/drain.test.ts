import { pods } from '@oarlock/api/resources';
import { failure, StatusError } from '@oarlock/api/status';
import type { Pod } from '@oarlock/api/types/core-v1';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { drain, type DrainClient } from '../../src/nodes/drain.ts';

describe('drain', () => {
  let api: ReturnType<typeof memoryApi>;
  let client: DrainClient;
  /** Evictions that are rejected, as by a PodDisruptionBudget. */
  let rejections: number;
  const evicted: string[] = [];
  const lines: string[] = [];
  beforeEach(() => {
    api = memoryApi({ clock: new FakeClock() });
    const admin = api.client();
    rejections = 0;
    evicted.length = lines.length = 0;
    client = {
      list: (resource, options) => admin.list(resource, options),
      watch: (resource, options) => admin.watch(resource, options),
      async raw(_: string, path: string) {
        const [, , , , namespace = '', , name = ''] = path.split('/');
        if (rejections > 0) {
          rejections -= 1;
          void admin.patch(pods, { namespace, name }, 'merge', { metadata: { labels: { seen: 'yes' } } });
          void admin.delete(pods, { namespace, name: 'ends-by-itself' }, { gracePeriodSeconds: 0 });
          throw new StatusError(failure('TooManyRequests', "Cannot evict pod as it would violate the pod's disruption budget.").status);
        }
        evicted.push(`${namespace}/${name}`);
        await admin.delete(pods, { namespace, name }, { gracePeriodSeconds: 0 });
        return {};
      },
    };
  });
  afterEach(() => api.stop());
  const pod = (name: string, more: Partial<Pod['metadata']> = {}, nodeName = 'n1') =>
    api.client().create<Pod>(pods, {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { namespace: 'default', name, ...more },
      spec: { nodeName, containers: [{ name: 'c', image: 'i' }] },
    });
  const run = (signal = new AbortController().signal) => drain('n1', { client, signal, log: (line) => lines.push(line) });

  it('evicts the pods of the node, except pods of DaemonSets and mirror pods', async () => {
    await pod('web');
    await pod('other', {}, 'n2');
    await pod('daemon', { ownerReferences: [{ apiVersion: 'apps/v1', kind: 'DaemonSet', name: 'd', uid: 'u', controller: true }] });
    await pod('static', { annotations: { 'kubernetes.io/config.mirror': 'hash' } });
    await run();
    expect(evicted).toEqual(['default/web']);
    expect(lines).toEqual(['evicting pod default/web']);
  });

  it('repeats an eviction that a PodDisruptionBudget rejected', async () => {
    await pod('web');
    await pod('ends-by-itself');
    rejections = 1;
    await run();
    expect(evicted).toContain('default/web');
    expect(lines[0]).toMatch(/Cannot evict pod as it would violate the pod's disruption budget/);
  });

  it('ends with the reason of its signal', async () => {
    await pod('web');
    await expect(run(AbortSignal.abort(new Error('too late')))).rejects.toThrow('too late');
  });
});
