import { silentLogger } from '@oarlock/kernel/logger';
import { expect, it } from 'vitest';
import { Evictions } from '../src/node/evictions.ts';
import type { PodWorker } from '../src/pod-worker.ts';
import { app, podOf } from './bench.ts';

it('asks pods that only seem to run for nothing, however many there are', async () => {
  const asked = () => {
    throw new Error('a pod that only seems to run was asked');
  };
  const hollow = Object.defineProperty({ record: Object.defineProperty({ runtime: { hollow: true } }, 'pod', { get: asked }) }, 'stage', {
    get: asked,
  });
  const pod = podOf('web', { containers: [app({ resources: { limits: { 'ephemeral-storage': '1Mi' } } })] });
  const real = { record: { pod, runtime: { hollow: false } }, stage: 'terminating' };
  let measured = 0;
  const evictions = new Evictions({
    log: silentLogger,
    signal: new AbortController().signal,
    maxGraceSeconds: 1,
    pods: () => [...Array.from({ length: 3 }, () => hollow), real] as unknown as readonly PodWorker[],
    stats: async () => {
      measured += 1;
      return new Map();
    },
    reclaimDisk: async () => undefined,
    lookAgain: async () => [],
    tell: () => undefined,
  });
  await evictions.look([]);
  expect(measured).toBe(0); // the one that is limited is on its way out
});
