import { describe, expect, it } from 'vitest';
import type { PodFacts } from '../../../src/status/top/top-facts.ts';
import { controlPlaneTable, formatTop, podTable, sorted } from '../../../src/status/top/top-tables.ts';

const pod = (name: string, more: Partial<PodFacts> = {}): PodFacts => ({
  ...{ namespace: 'd', name, ready: 1, containers: 1, status: 'Running', restarts: 0, node: 'a' },
  ...more,
});

describe('sorted', () => {
  const pods = [pod('b', { restarts: 1, cpuMillicores: 5 }), pod('c', { memoryBytes: 9 }), pod('a', { cpuMillicores: 7 })];
  it.each([
    ['name', 'abc'],
    ['cpu', 'abc'],
    ['memory', 'cab'],
    ['restarts', 'bac'],
  ] as const)('by %s: %s', (key, expected) => {
    expect(
      sorted(pods, key)
        .map(({ name }) => name)
        .join(''),
    ).toBe(expected);
  });
});

describe('podTable', () => {
  it('shows figures as kubectl top does, and no control characters of names', () => {
    const [, row, other] = podTable([pod('x\u001B[2J', { cpuMillicores: 12, memoryBytes: 3 * 2 ** 20, node: '' }), pod('y')]);
    expect(row).toEqual(['d', 'x\uFFFD[2J', '1/1', 'Running', '0', '12m', '3Mi', '<none>']);
    expect(other?.slice(5)).toEqual(['<unknown>', '<unknown>', 'a']);
  });
});

describe('controlPlaneTable', () => {
  it('lists queues with the longest first, and what is not served as unknown', () => {
    const facts = {
      ready: false,
      failedChecks: ['etcd'],
      requestsInFlight: 2,
      storageBytes: 5 * 2 ** 20,
      pendingPods: { active: 0, backoff: 3 },
      queueDepths: {},
    };
    expect(controlPlaneTable(facts).slice(1)).toEqual([
      ['API server', 'NotReady etcd'],
      ['requests in flight', '2'],
      ['watches and other long requests', '<unknown>'],
      ['pods in scheduler queues', 'backoff=3 active=0'],
      ['keys in controller queues', '<none>'],
      ['stored objects', '<unknown>'],
      ['storage size', '5Mi'],
    ]);
  });
});

describe('formatTop', () => {
  it('prints all tables and why there are no figures', () => {
    const text = formatTop({
      nodes: [],
      pods: [pod('web')],
      controlPlane: { ready: true, failedChecks: [] },
      metricsMissing: 'the cluster serves no metrics.k8s.io',
    });
    expect(text).toMatch(
      /^CONTROL PLANE[^]*NAME +STATUS[^]*NAMESPACE +NAME[^]*d +web[^]*No figures of use: the cluster serves no metrics.k8s.io$/,
    );
  });
});

describe('formatTop', () => {
  it('reports what the server does not serve, or does not show to the user', () => {
    const facts = { pods: [pod('web')], nodes: [], controlPlane: { failedChecks: [], missing: 'no permission for /metrics' } };
    const output = formatTop({
      ...facts,
      metricsMissing: 'the cluster serves no metrics.k8s.io',
      nodesMissing: 'User "ada" cannot list nodes',
    });
    expect(output).toMatch(/^API server +<unknown>$/m);
    expect(output).not.toContain('CPU(%)');
    expect(output.split('\n\n').slice(-3)).toEqual([
      'No nodes: User "ada" cannot list nodes',
      'No figures of use: the cluster serves no metrics.k8s.io',
      'No figures of the control plane: no permission for /metrics',
    ]);
  });
});
