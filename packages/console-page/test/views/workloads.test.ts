import { describe, expect, it } from 'vitest';
import type { KubeObject } from '../../src/api/client.ts';
import { fieldPaths } from '../../src/views/object/field-paths.ts';
import { healthOf, rolloutOf, unschedulableReason } from '../../src/views/object/health.ts';
import { splitTimestamp } from '../../src/views/object/logs/log-store.ts';
import { formatJson, plainText } from '../../src/views/object/logs/plain-text.ts';
import { revisionsOf } from '../../src/views/object/revisions/revisions.ts';
import { selectorText, selects, type Workload } from '../../src/views/object/workload-kinds.ts';
import { filterRows } from '../../src/views/resources/row-filter.ts';

const metadata = (name: string, more: Partial<KubeObject['metadata']> = {}) => ({ name, uid: name, resourceVersion: '1', ...more });

describe('a line of a log', () => {
  it.each([
    ['colors', '\u001B[31mred\u001B[0m', 'red'],
    ['a title and a clipboard write', '\u001B]0;title\u0007a\u001B]52;c;ZXZpbA==\u001B\\b', 'ab'],
    ['a string that does not end', 'a\u001B]52;c;ZXZpbA', 'a'],
    ['one-byte control sequences', 'a\u009B31mb', 'a31mb'],
    ['a reversed direction', 'a\u202Eb', 'a\uFFFDb'],
    ['backspaces and a carriage return', 'safe\b\b\b\bevil\r', 'safe\uFFFD\uFFFD\uFFFD\uFFFDevil'],
    ['tabs', 'a\tb', 'a\tb'],
  ])('has no effect on the page: %s', (_, line, text) => {
    expect(plainText(line)).toBe(text);
  });
  it('is cut if it is very long', () => {
    expect(plainText('x'.repeat(100_000))).toHaveLength(16_385);
  });
  it('has a timestamp and a text', () => {
    expect(splitTimestamp('2026-01-02T03:04:05.6Z a b')).toEqual({ time: '2026-01-02T03:04:05.6Z', text: 'a b' });
    expect(splitTimestamp('no time')).toEqual({ time: '', text: 'no time' });
  });
  it('of JSON is indented on request', () => {
    expect(formatJson('info {"a":1}')).toEqual(['info', '{', '  "a": 1', '}']);
    expect(formatJson('{broken}')).toEqual(['{broken}']);
  });
});

describe('the health of a workload', () => {
  const deployment = (status: Workload['status'], generation = 2): Workload => ({
    kind: 'Deployment',
    metadata: metadata('d', { generation }),
    spec: { replicas: 2 },
    ...(status && { status }),
  });
  it('is good when the newest generation is rolled out', () => {
    const status = { replicas: 2, readyReplicas: 2, updatedReplicas: 2, observedGeneration: 2 };
    expect(rolloutOf(deployment(status))?.isComplete).toBe(true);
    expect(rolloutOf(deployment({ ...status, observedGeneration: 1 }))?.isComplete).toBe(false);
    expect(rolloutOf(deployment({ ...status, replicas: 3 }))?.isComplete).toBe(false);
  });
  it('is bad when the rollout exceeded its deadline', () => {
    const conditions = [{ type: 'Progressing', status: 'False', message: 'deadline' }];
    expect(healthOf(deployment({ conditions }))).toEqual({ health: 'error', label: '0/2' });
  });
  it('of a pod follows its containers', () => {
    const pod = (status: unknown): KubeObject => ({ kind: 'Pod', metadata: metadata('p'), status });
    const waiting = { name: 'c', state: { waiting: { reason: 'ImagePullBackOff' } } };
    expect(healthOf(pod({ phase: 'Pending', containerStatuses: [waiting] }))).toEqual({ health: 'error', label: 'ImagePullBackOff' });
    const unscheduled = { type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message: '1 Insufficient cpu' };
    expect(unschedulableReason(pod({ phase: 'Pending', conditions: [unscheduled] }))).toBe('1 Insufficient cpu');
    expect(unschedulableReason(pod({ phase: 'Pending', conditions: [{ ...unscheduled, reason: 'SchedulingGated' }] }))).toBeUndefined();
    expect(healthOf(pod({ phase: 'Running', containerStatuses: [{ name: 'c', ready: false }] }))?.health).toBe('warning');
    expect(healthOf(pod({ phase: 'Running', containerStatuses: [{ name: 'c', ready: true }] }))?.health).toBe('ok');
  });
});

describe('a revision', () => {
  const owner: Workload = { kind: 'Deployment', metadata: metadata('d') };
  const owned = { ownerReferences: [{ apiVersion: 'apps/v1', kind: 'X', name: 'd', uid: 'd', controller: true }] };
  it('of a Deployment restores the template of its ReplicaSet, without the hash', () => {
    const replicaSet: Workload = {
      metadata: metadata('d-1', { ...owned, annotations: { 'deployment.kubernetes.io/revision': '10' } }),
      spec: { template: { metadata: { labels: { app: 'd', 'pod-template-hash': 'x' } } } },
    };
    const older = { ...replicaSet, metadata: metadata('d-2', { ...owned, annotations: { 'deployment.kubernetes.io/revision': '9' } }) };
    const foreign = { ...replicaSet, metadata: metadata('other') };
    const revisions = revisionsOf(owner, [older, foreign, replicaSet]);
    expect(revisions.map(({ number }) => number)).toEqual([10, 9]);
    expect(JSON.parse(revisions[0]?.rollback.body ?? '')).toEqual([
      { op: 'replace', path: '/spec/template', value: { metadata: { labels: { app: 'd' } } } },
    ]);
  });
  it('of a Deployment has the number and the change cause that kubectl rollout history prints', () => {
    const replicaSet = (name: string, annotations: Readonly<Record<string, string>>, more: Partial<KubeObject['metadata']> = {}) => ({
      metadata: metadata(name, { ...owned, annotations, ...more }),
      spec: { template: { metadata: { annotations: { 'kubernetes.io/change-cause': `template of ${name}` } } } },
    });
    const numbered = (number: string) => ({ 'deployment.kubernetes.io/revision': number });
    const [reference] = owned.ownerReferences;
    const revisions = revisionsOf(owner, [
      replicaSet('a', { ...numbered('2'), 'kubernetes.io/change-cause': 'kubectl set image' }),
      replicaSet('b', numbered('4')),
      replicaSet('invalid', numbered('x')),
      replicaSet('new', {}),
      replicaSet('foreign', numbered('9'), { ownerReferences: reference ? [{ ...reference, controller: false }] : [] }),
    ]);
    expect(revisions.map(({ number, changeCause }) => [number, changeCause])).toEqual([
      [4, 'template of b'],
      [2, 'kubectl set image'],
      [0, 'template of new'],
    ]);
  });
  it('of a StatefulSet is the patch of its ControllerRevision', () => {
    const data = { spec: { template: { $patch: 'replace', spec: {} } } };
    const [revision] = revisionsOf({ ...owner, kind: 'StatefulSet' }, [{ metadata: metadata('d-1', owned), revision: 3, data }]);
    expect(revision).toMatchObject({ number: 3, template: { spec: {} }, rollback: { body: JSON.stringify(data) } });
  });
});

describe('a selector', () => {
  it('is written as a query parameter', () => {
    const matchExpressions = [
      { key: 'b', operator: 'In', values: ['1', '2'] },
      { key: 'c', operator: 'NotIn', values: ['3'] },
      { key: 'd', operator: 'Exists' },
      { key: 'e', operator: 'DoesNotExist' },
    ];
    expect(selectorText({ matchLabels: { a: 'x' }, matchExpressions })).toBe('a=x,b in (1,2),c notin (3),d,!e');
  });
  it('of a Service without labels selects nothing', () => {
    expect([selects({}, { a: 'b' }), selects(undefined, {}), selects({ a: 'b' }, { a: 'b', c: 'd' })]).toEqual([false, false, true]);
  });
});

describe('managed fields', () => {
  it('are shown as paths', () => {
    const fields = {
      'f:metadata': { 'f:labels': { '.': {}, 'f:app.kubernetes.io/name': {} } },
      'f:spec': { 'f:containers': { 'k:{"name":"web"}': { '.': {}, 'f:image': {} } }, 'f:list': { 'v:"x"': {} } },
    };
    expect(fieldPaths(fields)).toEqual([
      'metadata.labels',
      'metadata.labels["app.kubernetes.io/name"]',
      'spec.containers[name=web]',
      'spec.containers[name=web].image',
      'spec.list["x"]',
    ]);
  });
});

describe('a filter', () => {
  const rows = ['web-1 Running', 'web-2 Pending', 'db-1 Running'].map((line, index) => ({
    uid: String(index),
    name: line,
    namespace: 'default',
    createdAt: 0,
    receivedAt: 0,
    isDeleted: false,
    cells: line.split(' '),
  }));
  it.each([
    ['web', 2],
    ['WEB running', 1],
    ['-running', 1],
    ['default', 3],
    ['-', 3],
    ['x', 0],
  ])('%j keeps %d rows', (filter, count) => {
    expect(filterRows(rows, filter)).toHaveLength(count);
  });
});
