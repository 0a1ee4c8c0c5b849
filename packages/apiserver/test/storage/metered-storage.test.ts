import { storageContract } from '@oarlock/spi/storage/contract';
import { MemoryStorage } from '@oarlock/storage-memory/memory-storage';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { Registry } from 'prom-client';
import { expect, it } from 'vitest';
import { withMetrics } from '../../src/storage/metered-storage.ts';

storageContract(
  'metered storage',
  async () => {
    const clock = new FakeClock();
    const driver = new MemoryStorage({ clock });
    return {
      driver: withMetrics(driver, new Registry(), clock),
      dispose: () => driver.stop(),
      tick: (ms) => clock.advance(ms),
      cost: () => driver.stats.steps,
    };
  },
  { runs: 5 },
);

it('MeteredStorage counts requests by operation and resource', async () => {
  const clock = new FakeClock();
  const metrics = new Registry();
  const driver = withMetrics(new MemoryStorage({ clock }), metrics, clock);
  const key = '/registry/deployments.apps/default/web';
  const created = await driver.commit([{ key, value: Buffer.from('1') }], [{ key, revision: 0 }]);
  await driver.commit([{ key, value: Buffer.from('2') }], [{ key, revision: created.ok ? created.revision : 0 }]);
  await driver.commit([{ key, value: null }], []);
  await driver.get('/registry/pods/default/a');
  await driver.range({ prefix: '/registry/pods/' });
  await expect(driver.get(key, { revision: 1000 })).rejects.toMatchObject({ code: 'FutureRevision' });
  const text = await metrics.metrics();
  for (const operation of ['create', 'update', 'delete'])
    expect(text).toContain(`etcd_requests_total{operation="${operation}",group="apps",resource="deployments"} 1`);
  expect(text).toContain('etcd_requests_total{operation="list",group="",resource="pods"} 1');
  expect(text).toContain('etcd_request_duration_seconds_count{operation="get",group="",resource="pods"} 1');
  expect(text).toContain('etcd_request_errors_total{operation="get",group="apps",resource="deployments"} 1');
});
