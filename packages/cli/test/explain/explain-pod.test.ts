import { describe, expect, it } from 'vitest';
import { plannedPods, textOf } from '../../src/explain/explain-pod.ts';

describe('oarlock explain pod', () => {
  it('prints scores, best first, and the plugins that rejected the pod', () => {
    expect(
      textOf({
        namespace: 'd',
        name: 'p',
        chosen: 'a',
        nodes: [
          { node: 'a', score: 120.4, scores: { NodeResourcesFit: 90.4, ImageLocality: 30 } },
          { node: 'far-away', rejectedBy: 'TaintToleration', reasons: ['node(s) had untolerated taint(s)'] },
        ],
      }),
    ).toBe(
      [
        'pod d/p: would go to a',
        '  NODE      SCORE  BECAUSE',
        '  a         120    NodeResourcesFit 90, ImageLocality 30',
        '  far-away  no     TaintToleration: node(s) had untolerated taint(s)',
        '',
      ].join('\n'),
    );
  });

  it('prints the node of a bound pod, or why it is unscheduled', () => {
    expect(textOf({ namespace: 'd', name: 'p', bound: 'a', nodes: [] })).toContain('pod d/p: is on a');
    expect(textOf({ namespace: 'd', name: 'p', message: '0/1 nodes are available: 1 Insufficient cpu.', nodes: [] })).toContain(
      'pod d/p: 0/1 nodes are available: 1 Insufficient cpu.',
    );
  });

  it('finds the pods of a manifest', () => {
    const template = 'template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: x}]}}';
    const text = [
      'apiVersion: v1\nkind: Pod\nmetadata: {name: one}\nspec: {containers: [{name: c, image: x}]}',
      `apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: many, namespace: other}\nspec: {replicas: 2, ${template}}`,
      `apiVersion: batch/v1\nkind: Job\nmetadata: {name: job}\nspec: {parallelism: 1, ${template}}`,
      'apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {}',
      '',
    ].join('\n---\n');
    expect(plannedPods(text, 'default').map(({ metadata }) => `${metadata?.namespace}/${metadata?.name}`)).toEqual([
      'default/one',
      'other/many-0',
      'other/many-1',
      'default/job-0',
    ]);
    expect(() => plannedPods('a: [', 'default')).toThrow();
  });
});
