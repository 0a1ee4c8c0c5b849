import { describe, expect, it } from 'vitest';
import { lanesOf, latencyOf, type PlacedPlugin } from '../../../src/views/plugins/composition.ts';
import type { Histogram } from '../../../src/views/plugins/metrics.ts';

const plugin = (name: string, slot: string): PlacedPlugin => ({ name, id: name, slot, needs: [], config: {} });
const histogram = (name: string, labels: Readonly<Record<string, string>>): Histogram => ({
  name,
  labels,
  buckets: [[Infinity, 2]],
  count: 2,
  sum: 1,
});

describe('lanesOf', () => {
  it('orders slots by the data flow, and keeps slots that it does not know', () => {
    const lanes = lanesOf([plugin('mine', 'tea/v1'), plugin('storage-memory', 'storage/v1'), plugin('authn-anonymous', 'authn/v1')]);
    expect(lanes.map(({ id, slots }) => [id, slots.map(({ slot }) => slot)])).toEqual([
      ['request', ['authn/v1', 'storage/v1']],
      ['other', ['tea/v1']],
    ]);
  });
});

describe('latencyOf', () => {
  const histograms = [
    histogram('apiserver_admission_controller_admission_duration_seconds', { name: 'LimitRanger', type: 'admit' }),
    histogram('apiserver_admission_controller_admission_duration_seconds', { name: 'LimitRanger', type: 'validate' }),
    histogram('workqueue_queue_duration_seconds', { name: 'job' }),
    histogram('workqueue_work_duration_seconds', { name: 'job' }),
    histogram('etcd_request_duration_seconds', { operation: 'get' }),
    histogram('apiserver_request_duration_seconds', { verb: 'GET' }),
    histogram('apiserver_request_duration_seconds', { verb: 'WATCH' }),
  ];
  it.each([
    ['admission-limit-ranger', 'admission/v1', 'apiserver_admission_controller_admission_duration_seconds', 4, false],
    ['job', 'controller/v1', 'workqueue_work_duration_seconds', 2, false],
    ['storage-embedded', 'storage/v1', 'etcd_request_duration_seconds', 2, true],
    ['apiserver', 'role/v1', 'apiserver_request_duration_seconds', 2, false],
  ])('finds the series of %s', (name, slot, metric, count, isShared) => {
    expect(latencyOf(plugin(name, slot), histograms)).toMatchObject({ histogram: { name: metric, count }, isShared });
  });

  it('is absent for plugins without a series', () => {
    expect(latencyOf(plugin('dns-server', 'dns/v1'), histograms)).toBeUndefined();
  });
});
