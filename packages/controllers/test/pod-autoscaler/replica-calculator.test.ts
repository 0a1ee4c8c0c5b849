import type { Pod } from '@oarlock/api/types/core-v1';
import {
  averageValueReplicas,
  objectMetricReplicas,
  resourceUtilizationReplicas,
  type UtilizationTarget,
} from '@oarlock/controllers/pod-autoscaler/replica-calculator';
import { describe, expect, it } from 'vitest';

const tolerances = { up: 0.1, down: 0.1 };
const timing = { nowMs: 10_000_000, cpuInitializationMs: 300_000, initialReadinessMs: 30_000 };
const pod = (name: string, spec: Partial<NonNullable<Pod['spec']>> = {}): Pod => ({
  metadata: { name },
  spec: { containers: [{ name: 'c', resources: { requests: { memory: '100' } } }], ...spec },
  status: { phase: 'Running', conditions: [{ type: 'Ready', status: 'True' }] },
});
const measured = (values: Readonly<Record<string, number>>) =>
  new Map(Object.entries(values).map(([name, value]) => [name, { value: value * 1000, at: timing.nowMs, windowMs: 30_000 }]));
const utilization = (pods: readonly Pod[], values: Readonly<Record<string, number>>, more: Partial<UtilizationTarget> = {}) =>
  resourceUtilizationReplicas(pods, {
    ...{ all: measured(values), current: pods.length, target: 50, resource: 'memory', container: undefined, tolerances, timing },
    ...more,
  });

describe('resourceUtilizationReplicas', () => {
  it('rejects a container that a pod does not have', () => {
    expect(() => utilization([pod('a')], { a: 50 }, { container: 'other' })).toThrow('container other not found in Pod a');
  });

  it('adds the requests of containers to those at pod level', () => {
    const containers = [{ name: 'c', resources: { requests: { memory: '300' } } }, { name: 'd' }];
    const resources = { requests: { cpu: '1' } };
    expect(utilization([pod('a', { containers, resources })], { a: 150 })).toMatchObject({ replicas: 1, utilization: 50 });
    expect(() => utilization([pod('a', { containers: [{ name: 'c' }], resources })], { a: 150 })).toThrow(
      'missing pod-level request for memory in Pod a',
    );
    expect(() => utilization([pod('a', { containers })], { a: 150 })).toThrow('missing request for memory in container d of Pod a');
  });

  it('counts metrics of pods that the informer does not know in the replicas, and not in the utilization', () => {
    const missing = pod('b');
    expect(utilization([pod('a'), missing], { a: 200, gone: 1 }, { current: 2 })).toMatchObject({ utilization: 200, average: 200_000 });
    // 200 of 200 for a and b, times three metrics
    expect(utilization([pod('a'), missing], { a: 200, gone: 1 }, { current: 2 }).replicas).toBe(6);
  });
});

describe('averageValueReplicas', () => {
  it('counts metrics of pods that the informer does not know, except those of pods that end', () => {
    const options = { current: 2, target: 10_000, resource: undefined, tolerances, timing };
    expect(averageValueReplicas([pod('a')], { all: measured({ a: 10, gone: 30 }), ...options })).toEqual({ replicas: 2, average: 20_000 });
    const ending = { ...pod('gone'), metadata: { name: 'gone', deletionTimestamp: '2026-01-01T00:00:00Z' } };
    expect(averageValueReplicas([pod('a'), ending], { all: measured({ a: 20, gone: 90 }), ...options }).average).toBe(20_000);
  });
});

describe('objectMetricReplicas', () => {
  const object = { specReplicas: 3, statusReplicas: 3, value: 10_000 };

  it('computes nothing from a value if the target has replicas and no pods', () => {
    expect(() => objectMetricReplicas(50_000, { ...object, pods: [] }, tolerances)).toThrow(
      'unable to calculate ready pods: no pods returned by selector while calculating replica count',
    );
    expect(objectMetricReplicas(10_500, { ...object, pods: [] }, tolerances)).toBe(3);
    expect(objectMetricReplicas(50_000, { ...object, specReplicas: 0, pods: [] }, tolerances)).toBe(5);
  });

  it('multiplies the ratio by the number of pods that are ready', () => {
    const unready = { ...pod('b'), status: { phase: 'Running' } };
    expect(objectMetricReplicas(50_000, { ...object, pods: [pod('a'), unready] }, tolerances)).toBe(5);
  });
});
