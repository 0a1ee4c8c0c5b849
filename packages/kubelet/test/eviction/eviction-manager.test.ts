import { silentLogger } from '@oarlock/primitives/logger';
import { expect, it } from 'vitest';
import { EvictionManager } from '../../src/eviction/eviction-manager.ts';
import { EvictionMetrics } from '../../src/metrics/eviction-metrics.ts';
import type { PodWorker } from '../../src/pod/worker/pod-worker.ts';
import { app, podOf } from '../support/bench.ts';

it('EvictionManager reads nothing of pods on hollow runtimes', async () => {
  const notRead = () => {
    throw new Error('a pod on a hollow runtime was read');
  };
  const hollow = Object.defineProperty({ record: Object.defineProperty({ runtime: { hollow: true } }, 'pod', { get: notRead }) }, 'stage', {
    get: notRead,
  });
  const pod = podOf('web', { containers: [app({ resources: { limits: { 'ephemeral-storage': '1Mi' } } })] });
  const real = { record: { pod, runtime: { hollow: false } }, stage: 'terminating' };
  let measured = 0;
  const evictions = new EvictionManager({
    log: silentLogger,
    metrics: new EvictionMetrics([]),
    signal: new AbortController().signal,
    maxGraceSeconds: 1,
    pods: () => [...Array.from({ length: 3 }, () => hollow), real] as unknown as readonly PodWorker[],
    stats: async () => {
      measured += 1;
      return new Map();
    },
    reclaimDisk: async () => undefined,
    measureAgain: async () => [],
    recordNodeEvent: () => undefined,
  });
  await evictions.synchronize([]);
  expect(measured).toBe(0); // the pod with a limit is already terminating
});
