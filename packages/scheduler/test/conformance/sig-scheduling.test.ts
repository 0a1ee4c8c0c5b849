import { limitRanges, namespaces, nodes, pods, priorityClasses, replicaSets } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { LimitRange, Pod } from '@oarlock/api/types/core-v1';
import type { PriorityClass } from '@oarlock/api/types/scheduling-v1';
import type { TestCluster } from '@oarlock/testing/start-cluster';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { conditionOf, open, workbench, type Workbench } from './cluster.ts';

let cluster: TestCluster;
let w: Workbench;
let count = 0;
beforeAll(async () => {
  cluster = await open();
});
afterAll(() => cluster?.stop(), 60_000);
beforeEach(async () => {
  w = await workbench(cluster, `sched-${++count}`);
});
// behaviors share the nodes: the next one must find them empty
afterEach(async () => {
  const { client } = cluster;
  for (const { metadata } of (await client.list(pods, { namespace: w.namespace })).items)
    if (metadata?.finalizers?.length)
      await client.patch(pods, { namespace: w.namespace, name: metadata.name ?? '' }, 'merge', { metadata: { finalizers: null } });
  await client.delete(namespaces, { name: w.namespace });
  await w.until(pods, (all) => all.length === 0);
  await client.deleteCollection(priorityClasses, { labelSelector: `of=${w.namespace}` });
});

const on = (name: string) => ({ nodeSelector: { 'kubernetes.io/hostname': name } });

describe('[sig-scheduling] SchedulerPredicates [Serial]', () => {
  it('validates resource limits of pods that are allowed to run [Conformance]', async () => {
    for (const name of ['node-0', 'node-1', 'node-2']) await w.pod(`filler-${name}`, on(name), '20');
    for (const name of ['node-0', 'node-1', 'node-2']) await w.untilScheduled(`filler-${name}`);
    await w.pod('additional', {}, '20');
    expect(conditionOf(await w.untilUnschedulable('additional'), 'PodScheduled')?.message).toMatch(
      /^0\/3 nodes are available: 3 Insufficient cpu\./,
    );
  });

  it('validates that NodeSelector is respected if matching [Conformance]', async () => {
    const label = `${w.namespace}.example.com/chosen`;
    await cluster.client.patch(nodes, { name: 'node-1' }, 'merge', { metadata: { labels: { [label]: '42' } } });
    await w.pod('with-labels', { nodeSelector: { [label]: '42' } });
    expect((await w.untilScheduled('with-labels')).spec?.nodeName).toBe('node-1');
    await cluster.client.patch(nodes, { name: 'node-1' }, 'merge', { metadata: { labels: { [label]: null } } });
  });

  it('validates that NodeSelector is respected if not matching [Conformance]', async () => {
    await w.pod('restricted', { nodeSelector: { label: 'nonempty' } });
    const unschedulable = await w.untilUnschedulable('restricted');
    expect(conditionOf(unschedulable, 'PodScheduled')?.message).toContain("3 node(s) didn't match Pod's node affinity/selector");
    expect(unschedulable.spec?.nodeName).toBeUndefined();
  });

  it('validates that there exists conflict between pods with same hostPort and protocol but one using 0.0.0.0 hostIP [Conformance]', async () => {
    const port = (hostIP?: string) => ({
      ...on('node-0'),
      containers: [
        { name: 'c', image: 'a:1', ports: [{ containerPort: 80, hostPort: 54322, protocol: 'TCP', ...(hostIP && { hostIP }) }] },
      ],
    });
    await w.pod('pod4', port());
    await w.untilScheduled('pod4');
    await w.pod('pod5', port('127.0.0.1'));
    expect(conditionOf(await w.untilUnschedulable('pod5'), 'PodScheduled')?.message).toContain(
      "1 node(s) didn't have free ports for the requested pod ports",
    );
  });
});

describe('[sig-scheduling] SchedulerPreemption [Serial]', () => {
  it('validates basic preemption works [Conformance]', async () => {
    const [low, medium, high] = [await w.priority('low', 1), await w.priority('medium', 100), await w.priority('high', 1000)];
    for (const [index, name] of ['node-0', 'node-1', 'node-2'].entries())
      await w.pod(`pod${index}`, { ...on(name), priorityClassName: index === 0 ? low : medium }, '20');
    for (const index of [0, 1, 2]) await w.untilScheduled(`pod${index}`);
    await w.pod('preemptor', { priorityClassName: high }, '20');
    expect((await w.untilScheduled('preemptor')).spec?.nodeName).toBe('node-0');
    const left = await w.until(pods, (all) => !all.some(({ metadata }) => metadata?.name === 'pod0'));
    expect(left.map(({ metadata }) => metadata?.name).toSorted()).toEqual(['pod1', 'pod2', 'preemptor']);
  });

  it('validates lower priority pod preemption by critical pod [Conformance]', async () => {
    const [low, medium] = [await w.priority('low', 1), await w.priority('medium', 100)];
    for (const [index, name] of ['node-0', 'node-1', 'node-2'].entries())
      await w.pod(`pod${index}`, { ...on(name), priorityClassName: index === 1 ? low : medium }, '20');
    for (const index of [0, 1, 2]) await w.untilScheduled(`pod${index}`);
    const critical = { namespace: 'kube-system', name: `critical-${w.namespace}` };
    await cluster.client.create(pods, {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: critical,
      spec: {
        priorityClassName: 'system-cluster-critical',
        terminationGracePeriodSeconds: 0,
        containers: [{ name: 'c', image: 'a:1', resources: { requests: { cpu: '20' } } }],
      },
    });
    await w.until(pods, (all) => !all.some(({ metadata }) => metadata?.name === 'pod1'));
    const system = await w.until(
      pods,
      (all) => all.some(({ metadata, spec }) => metadata?.name === critical.name && spec?.nodeName === 'node-1'),
      'kube-system',
    );
    expect(system.length).toBeGreaterThan(0);
    await cluster.client.delete(pods, critical, { gracePeriodSeconds: 0 });
  });

  it('validates pod disruption condition is added to the preempted pod [Conformance]', async () => {
    const [low, high] = [await w.priority('low', 1), await w.priority('high', 1000)];
    const victim = await w.pod('victim', { ...on('node-2'), priorityClassName: low }, '20');
    await w.untilScheduled('victim');
    await cluster.client.patch(pods, { namespace: w.namespace, name: 'victim' }, 'merge', {
      metadata: { finalizers: ['example.com/test'] },
    });
    await w.pod('preemptor', { ...on('node-2'), priorityClassName: high }, '20');
    const [preempted] = (
      await w.until(pods, (all) => all.some((each) => isVictim(each) && conditionOf(each, 'DisruptionTarget') !== undefined))
    ).filter(isVictim);
    expect(preempted?.metadata?.uid).toBe(victim.metadata?.uid);
    expect(conditionOf(preempted ?? {}, 'DisruptionTarget')).toMatchObject({
      status: 'True',
      reason: 'PreemptionByScheduler',
      message: 'default-scheduler: preempting to accommodate a higher priority pod',
    });
  });

  describe('PreemptionExecutionPath', () => {
    it('runs ReplicaSets to verify preemption running path [Conformance]', async () => {
      const replicaSet = async (level: number, replicas: number, cpu: string) => {
        const priorityClassName = await w.priority(`p${level}`, level);
        const labels = { level: String(level) };
        await cluster.client.create(replicaSets, {
          apiVersion: 'apps/v1',
          kind: 'ReplicaSet',
          metadata: { namespace: w.namespace, name: `rs-${level}` },
          spec: {
            replicas,
            selector: { matchLabels: labels },
            template: {
              metadata: { labels },
              spec: {
                ...on('node-0'),
                priorityClassName,
                terminationGracePeriodSeconds: 0,
                containers: [{ name: 'c', image: 'a:1', resources: { requests: { cpu } } }],
              },
            },
          },
        });
      };
      const running = (all: readonly Pod[], level: number) =>
        all.filter(
          ({ metadata, spec }) =>
            metadata?.labels?.['level'] === String(level) && metadata.deletionTimestamp === undefined && spec?.nodeName,
        ).length;
      // less than 3 of the 32 CPUs is left for others
      await replicaSet(1, 5, '3');
      await replicaSet(2, 4, '3');
      await replicaSet(3, 1, '3');
      await w.until(pods, (all) => running(all, 1) === 5 && running(all, 2) === 4 && running(all, 3) === 1);
      await replicaSet(4, 1, '10');
      const after = await w.until(pods, (all) => running(all, 4) === 1);
      // exactly three of the lowest priority are preempted
      expect([running(after, 1), running(after, 2), running(after, 3)]).toEqual([2, 4, 1]);
    });
  });

  describe('PriorityClass endpoints', () => {
    it('verify PriorityClass endpoints can be operated with different HTTP methods [Conformance]', async () => {
      const { client } = cluster;
      const [one, two] = [await w.priority('p1', 1), await w.priority('p2', 2)];
      const labelSelector = `of=${w.namespace}`;
      const listed = await client.list(priorityClasses, { labelSelector });
      expect(listed.items.map(({ value }) => value).toSorted()).toEqual([1, 2]);
      for (const each of listed.items) {
        const name = each.metadata?.name ?? '';
        const changed: PriorityClass = { ...each, apiVersion: 'scheduling.k8s.io/v1', kind: 'PriorityClass', description: 'updated' };
        expect((await client.update(priorityClasses, changed)).description).toBe('updated');
        expect(
          (await client.patch(priorityClasses, { name }, 'json', [{ op: 'replace', path: '/description', value: 'patched' }])).description,
        ).toBe('patched');
        await expect(client.patch(priorityClasses, { name }, 'json', [{ op: 'replace', path: '/value', value: 9 }])).rejects.toSatisfy(
          (error) => isStatus(error, 'Invalid'),
        );
        await expect(client.patch(priorityClasses, { name }, 'merge', { preemptionPolicy: 'Never' })).rejects.toSatisfy((error) =>
          isStatus(error, 'Invalid'),
        );
      }
      expect((await client.get(priorityClasses, { name: one })).value).toBe(1);
      await client.deleteCollection(priorityClasses, { labelSelector });
      await expect(client.get(priorityClasses, { name: two })).rejects.toSatisfy((error) => isStatus(error, 'NotFound'));
    });
  });
});

describe('[sig-scheduling] LimitRange', () => {
  const limitRange = (name: string, namespace = w.namespace): LimitRange => ({
    apiVersion: 'v1',
    kind: 'LimitRange',
    metadata: { name, namespace, labels: { of: w.namespace, name } },
    spec: {
      limits: [
        {
          type: 'Container',
          min: { cpu: '50m', memory: '100Mi' },
          max: { cpu: '500m', memory: '500Mi' },
          default: { cpu: '500m', memory: '500Mi' },
          defaultRequest: { cpu: '100m', memory: '200Mi' },
          maxLimitRequestRatio: {},
        },
      ],
    },
  });

  it('should create a LimitRange with defaults and ensure pod has those defaults applied. [Conformance]', async () => {
    const { client } = cluster;
    await client.create(limitRanges, limitRange('limit'));
    const bare = { containers: [{ name: 'c', image: 'a:1' }] };
    // admission reads LimitRanges from a cache
    const eventually = <T>(check: () => Promise<T>): Promise<T> => vi.waitFor(check, { timeout: 120_000 });
    let attempts = 0;
    await eventually(async () => {
      expect((await w.pod(`no-resources-${++attempts}`, bare)).spec?.containers[0]?.resources).toEqual({
        requests: { cpu: '100m', memory: '200Mi' },
        limits: { cpu: '500m', memory: '500Mi' },
      });
    });
    const partial = { containers: [{ name: 'c', image: 'a:1', resources: { requests: { cpu: '150m' }, limits: { memory: '300Mi' } } }] };
    expect((await w.pod('partial', partial)).spec?.containers[0]?.resources).toEqual({
      requests: { cpu: '150m', memory: '300Mi' },
      limits: { cpu: '500m', memory: '300Mi' },
    });
    await expect(w.pod('too-small', {}, '10m')).rejects.toSatisfy((error) => isStatus(error, 'Forbidden'));
    await expect(w.pod('too-large', {}, '600m')).rejects.toSatisfy((error) => isStatus(error, 'Forbidden'));
    await client.patch(limitRanges, { namespace: w.namespace, name: 'limit' }, 'json', [
      { op: 'replace', path: '/spec/limits/0/min/cpu', value: '9m' },
    ]);
    expect((await eventually(() => w.pod('small-enough', {}, '10m'))).metadata?.name).toBe('small-enough');
    await client.delete(limitRanges, { namespace: w.namespace, name: 'limit' });
    expect((await eventually(() => w.pod('free', {}, '600m'))).metadata?.name).toBe('free');
  });

  it('should list, patch and delete a LimitRange by collection [Conformance]', async () => {
    const { client } = cluster;
    const other = `${w.namespace}-other`;
    await client.create(namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: other } });
    await client.create(limitRanges, limitRange('first'));
    await client.create(limitRanges, limitRange('second', other));
    const all = () => client.list(limitRanges, { labelSelector: `of=${w.namespace}` });
    expect((await all()).items).toHaveLength(2);
    const patched = await client.patch(limitRanges, { namespace: w.namespace, name: 'first' }, 'merge', {
      metadata: { labels: { patched: 'yes' } },
      spec: { limits: [{ type: 'Container', max: { cpu: '600m' } }] },
    });
    expect(patched.metadata?.labels?.['patched']).toBe('yes');
    expect(patched.spec?.limits[0]?.max).toEqual({ cpu: '600m' });
    await client.deleteCollection(limitRanges, { namespace: w.namespace, labelSelector: 'patched=yes' });
    expect((await all()).items.map(({ metadata }) => metadata?.name)).toEqual(['second']);
    await client.delete(namespaces, { name: other });
  });
});

const isVictim = ({ metadata }: Pod) => metadata?.name === 'victim';
