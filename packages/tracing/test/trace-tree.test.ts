import { readFileSync, writeFileSync } from 'node:fs';
import type { RecordedSpan } from '@oarlock/spi/spans';
import { buildTrees, criticalPath, failedPaths, renderTrees, type TreeNode } from '@oarlock/tracing/trace-tree';
import { describe, expect, it } from 'vitest';
import { span, spanId } from './support/spans.ts';

/** Compares with a golden file beside the test; `UPDATE_GOLDEN=1` writes it. */
function golden(name: string, text: string): void {
  const file = new URL(`./golden/${name}.txt`, import.meta.url);
  if (process.env['UPDATE_GOLDEN'] === '1') writeFileSync(file, `${text}\n`);
  expect(`${text}\n`).toBe(readFileSync(file, 'utf8'));
}

const zero = 1_767_225_600_000;
/** Returns a span `name` from `start` to `end` in milliseconds after the beginning, with parent `parent`. */
const step = (id: string, name: string, start: number, end: number, parent?: string, more: Partial<RecordedSpan> = {}): RecordedSpan =>
  span(id, { name, start: zero + start, end: zero + end, ...(parent !== undefined && { parentId: spanId(parent) }), ...more });
const attributes = (record: RecordedSpan['attributes']) => ({ attributes: record });

/** The trace of a Deployment with one pod, as a cluster records it. */
const rollout: readonly RecordedSpan[] = [
  step(
    'apply',
    'create deployments.apps',
    0,
    12,
    undefined,
    attributes({
      'oarlock.object': 'deployments.apps/d/web',
      'oarlock.user': 'admin',
      'http.response.status_code': 201,
      'oarlock.revision': 41,
    }),
  ),
  step('authn', 'authentication', 0.1, 0.2, 'apply', attributes({ 'oarlock.user': 'admin' })),
  step('authz', 'authorization', 0.2, 0.3, 'apply', attributes({ 'oarlock.plugin': 'authz-masters', 'oarlock.decision': 'allow' })),
  step('admit', 'admission admission-namespace-lifecycle', 0.4, 0.6, 'apply', attributes({ 'oarlock.phase': 'validate' })),
  step('store', 'storage write', 2, 10, 'apply', attributes({ 'oarlock.revision': 41 })),
  step('deploy', 'reconcile deployment', 15, 22, 'apply', attributes({ 'oarlock.key': 'd/web', 'oarlock.enqueued_at': zero + 13.5 })),
  step('mkset', 'create replicasets.apps', 16, 20, 'deploy', attributes({ 'oarlock.object': 'replicasets.apps/d/web-1' })),
  step('set', 'reconcile replicaset', 21, 30, 'mkset', attributes({ 'oarlock.key': 'd/web-1', 'oarlock.enqueued_at': zero + 20.4 })),
  step('mkpod', 'create pods', 22, 27, 'set', attributes({ 'oarlock.object': 'pods/d/web-1-a' })),
  step('sched', 'schedule', 28, 33, 'mkpod', attributes({ 'oarlock.key': 'd/web-1-a', 'oarlock.enqueued_at': zero + 27.5 })),
  step(
    'filter',
    'filter',
    28.2,
    28.6,
    'sched',
    attributes({ 'oarlock.nodes': 2, 'oarlock.feasible': 1, 'oarlock.refused': '{"node(s) were unschedulable":1}' }),
  ),
  step('score', 'score', 28.6, 28.8, 'sched', attributes({ 'oarlock.scores': '{"n1":250}' })),
  step('bind', 'bind', 29, 32.5, 'sched'),
  step('binding', 'create pods/binding', 29.2, 32, 'bind', attributes({ 'oarlock.object': 'pods/d/web-1-a' })),
  step(
    'sync',
    'sync pod',
    34,
    480,
    'binding',
    attributes({ 'oarlock.key': 'd/web-1-a', 'oarlock.node': 'n1', 'oarlock.enqueued_at': zero + 32.8 }),
  ),
  step('sandbox', 'RunPodSandbox', 36, 160, 'sync'),
  step('cni', 'CNI ADD', 60, 150, 'sandbox'),
  step('start', 'StartContainer', 300, 470, 'sync', attributes({ 'oarlock.container': 'web' })),
];

describe('span trees', () => {
  it('show a rollout from the request to the container', () => {
    golden('rollout', renderTrees(buildTrees(rollout)));
  });

  it('do not depend on the order of the spans', () => {
    expect(buildTrees(rollout.toReversed())).toEqual(buildTrees(rollout));
  });

  it('show each span once, with a root where the cause is unknown', () => {
    const trees = buildTrees(rollout.filter(({ name }) => name !== 'create replicasets.apps'));
    expect(trees.map((tree) => tree.span.name)).toEqual(['create deployments.apps', 'reconcile replicaset']);
    const count = (node: TreeNode): number => 1 + node.children.reduce((sum, child) => sum + count(child), 0);
    expect(trees.reduce((sum, tree) => sum + count(tree), 0)).toBe(rollout.length - 1);
  });

  it('show the watch latency and the queue time', () => {
    const find = (nodes: readonly TreeNode[], name: string): TreeNode | undefined =>
      nodes.map((node) => (node.span.name === name ? node : find(node.children, name))).find((node) => node !== undefined);
    const trees = buildTrees(rollout);
    expect(find(trees, 'reconcile deployment')?.wait).toEqual({ watchMs: 1.5, idleMs: 0, queueMs: 1.5 });
    expect(find(trees, 'storage write')?.wait).toBeUndefined();
    const [odd] = buildTrees([
      step('a', 'a', 0, 10, undefined, attributes({ 'oarlock.object': 'pods/d/a' })),
      step('b', 'b', 20, 30, 'a', attributes({ 'oarlock.enqueued_at': zero + 5 })),
      step('c', 'c', 20, 30, 'a', attributes({ 'oarlock.enqueued_at': zero + 99 })),
    ]);
    expect(odd?.children.map(({ wait }) => wait)).toEqual([
      { watchMs: 0, idleMs: 0, queueMs: 10 },
      { watchMs: 10, idleMs: 0, queueMs: 0 },
    ]);
  });

  it('do not take the time before a probe, or before the pass that it causes, for the watch', () => {
    const [tree] = buildTrees([
      ...rollout,
      step('probe', 'probe', 1480, 1490, 'sync'),
      step('ready', 'sync pod', 1492, 1500, 'probe', attributes({ 'oarlock.enqueued_at': zero + 1491 })),
    ]);
    if (tree === undefined) throw new Error('no tree');
    expect(criticalPath(tree).slice(-7)).toEqual([
      { what: 'sync pod', ms: 446 },
      { what: 'idle, before probe', ms: 1000 },
      { what: 'queue, before probe', ms: 0 },
      { what: 'probe', ms: 10 },
      { what: 'idle, before sync pod', ms: 1 },
      { what: 'queue, before sync pod', ms: 1 },
      { what: 'sync pod', ms: 8 },
    ]);
    expect(renderTrees([tree])).toMatch(/probe {2}\(after 1000 ms idle, 0\.00 ms in the queue\)/);
  });

  it("terminate for spans that are each other's parent", () => {
    const loop = [step('a', 'a', 0, 1, 'b'), step('b', 'b', 0, 1, 'a'), step('c', 'c', 0, 1, 'c')];
    expect(renderTrees(buildTrees([...loop, step('d', 'd', 0, 1)]))).toContain('d');
  });
});

describe('critical path', () => {
  it('covers the first request to the last end without gaps', () => {
    const [tree] = buildTrees(rollout);
    if (tree === undefined) throw new Error('no tree');
    const parts = criticalPath(tree);
    expect(parts.map(({ what }) => what)).toEqual([
      'create deployments.apps',
      'watch, before reconcile deployment',
      'queue, before reconcile deployment',
      'reconcile deployment',
      'create replicasets.apps',
      'watch, before reconcile replicaset',
      'queue, before reconcile replicaset',
      'reconcile replicaset',
      'create pods',
      'watch, before schedule',
      'queue, before schedule',
      'schedule',
      'bind',
      'create pods/binding',
      'watch, before sync pod',
      'queue, before sync pod',
      'sync pod',
    ]);
    expect(parts.reduce((sum, { ms }) => sum + ms, 0)).toBeCloseTo(480, 6);
  });

  it('covers the time for any shape of the tree', () => {
    const shapes = [
      [step('a', 'a', 0, 100)],
      [step('a', 'a', 0, 10), step('b', 'b', 5, 50, 'a'), step('c', 'c', 60, 70, 'b')],
      [step('a', 'a', 0, 10), step('b', 'b', 30, 50, 'a'), step('c', 'c', 20, 25, 'a')],
      [step('a', 'a', 0, 100), step('b', 'b', 20, 30, 'a'), step('c', 'c', 40, 110, 'b')],
    ];
    for (const spans of shapes) {
      const [tree] = buildTrees(spans);
      if (tree === undefined) throw new Error('no tree');
      const last = Math.max(...spans.map(({ end }) => end)) - zero;
      const parts = criticalPath(tree);
      expect(
        parts.every(({ ms }) => ms >= 0),
        JSON.stringify(parts),
      ).toBe(true);
      expect(parts.reduce((sum, { ms }) => sum + ms, 0)).toBeCloseTo(last, 6);
    }
  });
});

describe('failed steps', () => {
  const failed = [
    ...rollout.filter(({ name }) => name !== 'StartContainer' && name !== 'CNI ADD' && name !== 'RunPodSandbox' && name !== 'sync pod'),
    step('sync', 'sync pod', 34, 90, 'binding', {
      ...attributes({ 'oarlock.key': 'd/web-1-a', 'oarlock.node': 'n1' }),
      error: 'the sandbox could not be made',
    }),
    step('sandbox', 'RunPodSandbox', 36, 80, 'sync', { error: 'network: no address is left' }),
    step('cni', 'CNI ADD', 60, 75, 'sandbox', { error: 'no address is left in 10.244.0.0/28' }),
  ];

  it('are listed from the request to the failed step', () => {
    const paths = failedPaths(buildTrees(failed));
    expect(paths.map((path) => path.map(({ name }) => name))).toEqual([
      [
        'create deployments.apps',
        'reconcile deployment',
        'create replicasets.apps',
        'reconcile replicaset',
        'create pods',
        'schedule',
        'bind',
        'create pods/binding',
        'sync pod',
        'RunPodSandbox',
        'CNI ADD',
      ],
    ]);
    expect(paths[0]?.at(-1)?.error).toBe('no address is left in 10.244.0.0/28');
  });

  it('are marked in the tree', () => {
    golden('failed', renderTrees(buildTrees(failed)));
  });

  it('are listed separately if there are several; the list is empty without failures', () => {
    expect(failedPaths(buildTrees(rollout))).toEqual([]);
    const two = [step('a', 'a', 0, 9), step('b', 'b', 1, 2, 'a', { error: 'x' }), step('c', 'c', 3, 4, 'a', { error: 'y' })];
    expect(failedPaths(buildTrees(two)).map((path) => path.at(-1)?.error)).toEqual(['x', 'y']);
  });
});
