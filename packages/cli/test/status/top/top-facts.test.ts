import { describe, expect, it } from 'vitest';
import { topFacts } from '../../../src/status/top/top-facts.ts';
import { noUsage } from '../../../src/status/top/usage.ts';

const node = {
  metadata: { name: 'a' },
  spec: { unschedulable: true },
  status: { allocatable: { cpu: '2', memory: '4Gi' }, conditions: [{ type: 'Ready', status: 'True' }] },
};
const pod = (name: string, phase: string) => ({
  metadata: { namespace: 'd', name },
  spec: { nodeName: 'a', containers: [{ name: 'c' }] },
  status: { phase, containerStatuses: [{ name: 'c', ready: phase === 'Running', restartCount: 3, state: { running: {} } }] },
});
const controlPlane = { ready: true, failedChecks: [] };

describe('topFacts', () => {
  it('joins objects with their use, and counts the pods that use a node', () => {
    const usage = {
      nodes: new Map([['a', { cpuMillicores: 500, memoryBytes: 2 ** 30 }]]),
      pods: new Map([['d/web', { cpuMillicores: 5, memoryBytes: 2 ** 20 }]]),
    };
    // objects of tests have only the fields that are read
    const facts = topFacts({
      nodes: [node] as never,
      pods: [pod('web', 'Running'), pod('done', 'Succeeded')] as never,
      usage,
      controlPlane,
    });
    expect(facts.nodes).toEqual([
      {
        name: 'a',
        status: 'Ready,SchedulingDisabled',
        pods: 1,
        cpuMillicores: 500,
        cpuPercent: 25,
        memoryBytes: 2 ** 30,
        memoryPercent: 25,
      },
    ]);
    expect(facts.pods[0]).toEqual({
      ...{ namespace: 'd', name: 'web', ready: 1, containers: 1, status: 'Running', restarts: 3, node: 'a' },
      ...{ cpuMillicores: 5, memoryBytes: 2 ** 20 },
    });
  });

  it('leaves out figures that the cluster does not have', () => {
    const facts = topFacts({ nodes: [node] as never, pods: [], usage: { ...noUsage, missing: 'no metrics' }, controlPlane });
    expect(facts).toMatchObject({ metricsMissing: 'no metrics', nodes: [{ name: 'a', pods: 0 }] });
    expect(facts.nodes[0]).not.toHaveProperty('cpuMillicores');
  });
});
