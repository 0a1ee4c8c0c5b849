import { nodes, pods } from '@oarlock/api/resources';
import type { PodSpec } from '@oarlock/api/types/core-v1';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { node, pod, testScheduler } from '../support/test-scheduler.ts';

let w: ReturnType<typeof testScheduler>;
beforeEach(() => {
  w = testScheduler();
});
afterEach(() => w.stop());

const mib = 1024 * 1024;
const scores = (plugin: string, spec: Partial<PodSpec>) =>
  Object.fromEntries(w.explain(pod('new', spec)).map((each) => [each.node, each.scores?.[plugin]]));

describe('the default plugins', () => {
  it("have Kubernetes' weights", async () => {
    await w.start();
    expect(Object.fromEntries(w.chain.flatMap(({ name, score, weight = 1 }) => (score === undefined ? [] : [[name, weight]])))).toEqual({
      TaintToleration: 3,
      NodeAffinity: 2,
      NodeResourcesFit: 1,
      PodTopologySpread: 2,
      InterPodAffinity: 2,
      DynamicResources: 1,
      NodeResourcesBalancedAllocation: 1,
      ImageLocality: 1,
    });
  });

  it('ImageLocality: prefers nodes that have large images, less if few nodes have them', async () => {
    const having = (name: string, ...images: string[]) => {
      const one = node(name);
      return { ...one, status: { ...one.status, images: images.map((image) => ({ names: [image], sizeBytes: 500 * mib })) } };
    };
    w.seedNodes(having('a', 'big:1', 'small:latest'), having('b', 'small:latest'));
    await w.start();
    const run = (image: string) => ({ containers: [{ name: 'c', image }] });
    // 500 MiB on one of two nodes, between 23 MiB and 1000 MiB
    expect(scores('ImageLocality', run('big:1'))).toEqual({ a: 23, b: 0 });
    expect(scores('ImageLocality', run('small'))).toEqual({ a: 48, b: 48 });
    expect(scores('ImageLocality', run('other:1'))).toEqual({ a: undefined, b: undefined });
  });

  it('NodeResourcesBalancedAllocation: prefers nodes whose CPU and memory usage the pod makes more similar', async () => {
    w.seedNodes(node('a'), node('b'));
    w.api.seed(pods, pod('1', { nodeName: 'a', containers: [{ name: 'c', resources: { requests: { memory: '4Gi' } } }] }));
    await w.start();
    const asking = { containers: [{ name: 'c', resources: { requests: { cpu: '2' } } }] };
    // a: from 0 and 0.5 to 0.5 and 0.5; b: from 0 and 0 to 0.5 and 0
    expect(scores('NodeResourcesBalancedAllocation', asking)).toEqual({ a: 87, b: 62 });
    expect(scores('NodeResourcesBalancedAllocation', {})).toEqual({ a: undefined, b: undefined });
  });

  it('NodeUnschedulable: admits pods that tolerate its taint', async () => {
    w.seedNodes(node('off', {}, { spec: { unschedulable: true } }));
    await w.start();
    await w.submit(
      pod('plain'),
      pod('tolerant', { tolerations: [{ key: 'node.kubernetes.io/unschedulable', operator: 'Exists', effect: 'NoSchedule' }] }),
    );
    expect([w.placeOf('plain'), w.placeOf('tolerant')]).toEqual([undefined, 'off']);
    expect(w.whyNot('plain')).toContain('0/1 nodes are available: 1 node(s) were unschedulable.');
  });

  it('NodeDeclaredFeatures: selects nodes that declare the required features', async () => {
    const declaring = (name: string, declaredFeatures?: string[]) => {
      const one = node(name);
      return { ...one, status: { ...one.status, ...(declaredFeatures && { declaredFeatures }) } };
    };
    w.seedNodes(declaring('old'));
    await w.start();
    const restartPolicyRules = [{ action: 'RestartAllContainers', exitCodes: { operator: 'In', values: [7] } }];
    await w.submit(pod('p', { containers: [{ name: 'c', restartPolicy: 'Never', restartPolicyRules }] }));
    expect(w.whyNot('p')).toContain(
      '1 node declared features check failed - unsatisfied requirements: RestartAllContainersOnContainerExits.',
    );
    await w.api.client().create(nodes, declaring('new', ['RestartAllContainersOnContainerExits']));
    await w.clock.advance(1100);
    expect(w.placeOf('p')).toBe('new');
  });

  it('[sig-scheduling] SchedulerPredicates [Serial] validates that there exists conflict between pods with same hostPort and protocol but one using 0.0.0.0 hostIP', async () => {
    w.seedNodes(node('a'));
    await w.start();
    const port = (hostIP: string, protocol = 'TCP'): Partial<PodSpec> => ({
      containers: [{ name: 'c', ports: [{ containerPort: 80, hostPort: 54322, hostIP, protocol }] }],
    });
    await w.submit(pod('any', port('')), pod('one', port('10.0.0.1')), pod('udp', port('10.0.0.1', 'UDP')));
    expect([w.placeOf('any'), w.placeOf('one'), w.placeOf('udp')]).toEqual(['a', undefined, 'a']);
  });
});
