import { pods } from '@oarlock/api/resources';
import type { Container, ContainerResizePolicy, ResourceRequirements } from '@oarlock/api/types/core-v1';
import type { LinuxResources, RuntimeDriver } from '@oarlock/spi/runtime';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { app, Bench, container, podOf } from '../support/bench.ts';

/** `cpu memory` of requests, and then of limits. */
const amounts = (requests: string, limits?: string): ResourceRequirements => {
  const of = (text: string) => ({ cpu: text.split(' ')[0] ?? '', memory: text.split(' ')[1] ?? '' });
  return { requests: of(requests), ...(limits !== undefined && { limits: of(limits) }) };
};
const restart: readonly ContainerResizePolicy[] = [{ resourceName: 'memory', restartPolicy: 'RestartContainer' }];

describe('in-place resize of a pod', () => {
  let bench: Bench;
  let updates: [name: string, resources: LinuxResources][];
  let runtimeError: string | undefined;
  let usage: number;
  const wrap = (driver: RuntimeDriver): RuntimeDriver =>
    new Proxy(driver, {
      get(target, key) {
        if (key === 'updateContainerResources')
          return async (id: string, resources: LinuxResources) => {
            if (runtimeError !== undefined) throw new Error(runtimeError);
            updates.push([(await target.containerStatus(id)).metadata.name, resources]);
          };
        if (key === 'containerStats') return async (id: string) => ({ ...(await target.containerStats(id)), memoryWorkingSetBytes: usage });
        const value = Reflect.get(target, key) as unknown;
        return typeof value === 'function' ? (value as (...args: unknown[]) => unknown).bind(target) : value;
      },
    });

  beforeEach(async () => {
    updates = [];
    runtimeError = undefined;
    usage = 0;
    bench = await new Bench({ wrap, config: { capacity: { cpu: '2', memory: '4Gi' } } }).start();
  });
  afterEach(() => bench.dispose());

  const start = async (name: string, ...containers: Partial<Container>[]) => {
    bench.create(podOf(name, { containers: containers.map((one) => app(one)) }));
    return bench.ready(name);
  };
  const resize = (name: string, sizes: Readonly<Record<string, ResourceRequirements>>) =>
    bench.api.client().patch(pods, { namespace: 'default', name }, 'strategic', {
      spec: { containers: Object.entries(sizes).map(([one, resources]) => ({ name: one, resources })) },
    });
  const condition = (name: string, type: string) => bench.pod(name)?.status?.conditions?.find((one) => one.type === type);
  const has = (name: string, one: string, resources: ResourceRequirements) =>
    bench.until(name, (pod) => JSON.stringify(container(pod, one)?.resources) === JSON.stringify(resources), {
      within: 60_000,
      what: `${one} has the requested resources`,
    });

  it('of a guaranteed pod with multiple containers changes all of them without a restart', async () => {
    await start(
      'web',
      { name: 'c1', resources: amounts('100m 128Mi', '100m 128Mi') },
      { name: 'c2', resources: amounts('200m 256Mi', '200m 256Mi') },
      { name: 'c3', resources: amounts('300m 512Mi', '300m 512Mi') },
    );
    await resize('web', {
      c1: amounts('140m 200Mi', '140m 200Mi'),
      c2: amounts('150m 240Mi', '150m 240Mi'),
      c3: amounts('340m 512Mi', '340m 512Mi'),
    });
    const pod = await has('web', 'c3', amounts('340m 512Mi', '340m 512Mi'));
    expect(
      pod.status?.containerStatuses?.map(({ resources, allocatedResources, restartCount }) => ({
        resources,
        allocatedResources,
        restartCount,
      })),
    ).toEqual(
      ['140m 200Mi', '150m 240Mi', '340m 512Mi'].map((size) => ({
        resources: amounts(size, size),
        allocatedResources: amounts(size).requests,
        restartCount: 0,
      })),
    );
    expect(updates).toEqual([
      ['c1', { cpuShares: 143, cpuPeriod: 100_000, cpuQuota: 14_000, memoryLimitBytes: 200 * 2 ** 20 }],
      ['c2', { cpuShares: 153, cpuPeriod: 100_000, cpuQuota: 15_000, memoryLimitBytes: 240 * 2 ** 20 }],
      ['c3', { cpuShares: 348, cpuPeriod: 100_000, cpuQuota: 34_000, memoryLimitBytes: 512 * 2 ** 20 }],
    ]);
    expect(condition('web', 'PodResizePending') ?? condition('web', 'PodResizeInProgress')).toBeUndefined();
    expect(bench.events.lines.filter((line) => line.includes('Resize')).map((line) => line.split(': ')[0])).toEqual([
      'web Normal ResizeStarted',
      'web Normal ResizeCompleted',
    ]);
  });

  it('of init containers changes the running one, and later ones start with what they were given', async () => {
    const init = (name: string) => app({ name, command: ['sleep', '60'], resources: amounts('100m 128Mi') });
    bench.create(
      podOf('web', { initContainers: [init('first'), init('second')], containers: [app({ resources: amounts('100m 128Mi') })] }),
    );
    const statusOf = (at: number) => bench.pod('web')?.status?.initContainerStatuses?.[at];
    await bench.until('web', () => statusOf(0)?.state?.running !== undefined);
    const id = statusOf(0)?.containerID;
    await bench.api.client().patch(pods, { namespace: 'default', name: 'web' }, 'strategic', {
      spec: { initContainers: ['first', 'second'].map((name) => ({ name, resources: amounts('200m 128Mi') })) },
    });
    await bench.until('web', () => statusOf(0)?.resources?.requests?.['cpu'] === '200m', { within: 30_000 });
    expect(updates.map(([name]) => name)).toEqual(['first']);
    expect(statusOf(0)?.containerID).toBe(id);
    await bench.ready('web');
    expect(statusOf(1)?.resources).toEqual(amounts('200m 128Mi'));
    expect(condition('web', 'PodResizeInProgress')).toBeUndefined();
    await bench.restart();
    await bench.clock.advance(60_000);
    expect(updates).toHaveLength(1);
    expect(bench.events.of('ResizeStarted')).toHaveLength(1);
  });

  it('of burstable pods adds requests and limits, and ignores other notations of a quantity', async () => {
    await start('web', { name: 'c1', resources: amounts('2m 64Mi') }, { name: 'c2' });
    await resize('web', { c1: amounts('1m 64Mi'), c2: amounts('100m 64Mi', '200m 128Mi') });
    const pod = await has('web', 'c2', amounts('100m 64Mi', '200m 128Mi'));
    expect(container(pod, 'c1')?.resources).toEqual(amounts('1m 64Mi'));
    // an equal quantity in another notation is not a resize
    await resize('web', { c2: amounts('0.1 65536Ki', '0.2 131072Ki') });
    await bench.clock.advance(30_000);
    expect(updates.map(([name]) => name)).toEqual(['c1', 'c2']);
  });

  it('restarts a container whose resizePolicy requires it', async () => {
    await start('web', { resources: amounts('100m 64Mi', '200m 128Mi'), resizePolicy: restart });
    await resize('web', { app: amounts('150m 64Mi', '200m 128Mi') });
    await has('web', 'app', amounts('150m 64Mi', '200m 128Mi'));
    expect(container(bench.pod('web'))?.restartCount).toBe(0);
    await resize('web', { app: amounts('150m 64Mi', '200m 256Mi') });
    const pod = await bench.until('web', (one) => container(one)?.restartCount === 1 && container(one)?.state?.running !== undefined, {
      within: 60_000,
    });
    expect(container(pod)?.resources).toEqual(amounts('150m 64Mi', '200m 256Mi'));
    expect(bench.events.of('Killing')).toEqual(['web Normal Killing spec.containers{app}: Container app resize requires restart']);
    expect(bench.events.of('ResizeCompleted')).toHaveLength(2);
    expect(updates).toHaveLength(1);
    expect(condition('web', 'PodResizeInProgress')).toBeUndefined();
  });

  it('is Deferred until the node has enough, and Infeasible beyond its capacity', async () => {
    await start('a', { resources: amounts('1200m 64Mi') });
    await start('b', { resources: amounts('500m 64Mi') });
    await resize('b', { app: amounts('1 64Mi') });
    await bench.until('b', () => condition('b', 'PodResizePending') !== undefined, { within: 60_000 });
    expect(condition('b', 'PodResizePending')).toMatchObject({
      status: 'True',
      reason: 'Deferred',
      message: "Node didn't have enough resource: cpu, requested: 1000, used: 1200, capacity: 2000",
    });
    expect(container(bench.pod('b'))?.resources).toEqual(amounts('500m 64Mi'));
    await resize('b', { app: amounts('3 64Mi') });
    await bench.until('b', () => condition('b', 'PodResizePending')?.reason === 'Infeasible', { within: 60_000 });
    expect(condition('b', 'PodResizePending')?.message).toBe("Node didn't have enough capacity: cpu, requested: 3000, capacity: 2000");
    await resize('b', { app: amounts('1 64Mi') });
    await bench.until('b', () => condition('b', 'PodResizePending')?.reason === 'Deferred', { within: 60_000 });
    expect(updates).toEqual([]);
    // a smaller pod frees resources
    await resize('a', { app: amounts('900m 64Mi') });
    await has('b', 'app', amounts('1 64Mi'));
    expect(condition('b', 'PodResizePending')).toBeUndefined();
  });

  it('is completed when another pod is deleted', async () => {
    await start('a', { resources: amounts('1200m 64Mi') });
    await start('b', { resources: amounts('500m 64Mi') });
    await resize('b', { app: amounts('1 64Mi') });
    await bench.until('b', () => condition('b', 'PodResizePending') !== undefined, { within: 60_000 });
    await bench.delete('a', 1);
    await has('b', 'app', amounts('1 64Mi'));
  });

  it('continues after a restart of the kubelet', async () => {
    await start('a', { resources: amounts('1200m 64Mi') });
    await start('b', { resources: amounts('500m 64Mi') });
    await resize('b', { app: amounts('1 64Mi') });
    await bench.until('b', () => condition('b', 'PodResizePending') !== undefined, { within: 60_000 });
    await bench.restart(1000);
    await bench.clock.advance(10_000);
    expect(condition('b', 'PodResizePending')?.reason).toBe('Deferred');
    expect(container(bench.pod('b'))?.resources).toEqual(amounts('500m 64Mi'));
    await bench.delete('a', 1);
    await has('b', 'app', amounts('1 64Mi'));
    expect(container(bench.pod('b'))?.restartCount).toBe(0);
    expect(updates.map(([name]) => name)).toEqual(['app']);
  });

  it('reports failures, never sets a limit below the usage, and retries', async () => {
    await start('web', { resources: amounts('100m 64Mi', '200m 256Mi') });
    usage = 200 * 2 ** 20;
    await resize('web', { app: amounts('100m 64Mi', '200m 128Mi') });
    await bench.until('web', () => condition('web', 'PodResizeInProgress') !== undefined, { within: 60_000 });
    expect(condition('web', 'PodResizeInProgress')).toMatchObject({
      status: 'True',
      reason: 'Error',
      message: 'attempting to set container memory limit (134217728) below current usage (209715200)',
    });
    expect(container(bench.pod('web'))).toMatchObject({
      resources: amounts('100m 64Mi', '200m 256Mi'),
      allocatedResources: amounts('100m 64Mi').requests,
    });
    usage = 0;
    runtimeError = 'the runtime is busy';
    await bench.until('web', () => condition('web', 'PodResizeInProgress')?.message === runtimeError, { within: 60_000 });
    runtimeError = undefined;
    await has('web', 'app', amounts('100m 64Mi', '200m 128Mi'));
    expect(condition('web', 'PodResizeInProgress')).toBeUndefined();
    expect(bench.events.of('ResizeError')).toHaveLength(2);
    expect(bench.events.of('ResizeCompleted')).toHaveLength(1);
  });

  describe('with pod-level resources (KEP-5419)', () => {
    const startWithPodResources = (name: string, resources: ResourceRequirements, ...containers: Partial<Container>[]) => {
      bench.create(podOf(name, { resources, containers: containers.map((one) => app(one)) }));
      return bench.ready(name);
    };
    const resizePod = (name: string, resources: ResourceRequirements) =>
      bench.api.client().patch(pods, { namespace: 'default', name }, 'strategic', { spec: { resources } });
    const hasPodResources = (name: string, resources: ResourceRequirements) =>
      bench.until(name, (pod) => JSON.stringify(pod?.status?.resources) === JSON.stringify(resources), {
        within: 60_000,
        what: `${name} has the requested resources`,
      });
    const [before, after] = [amounts('100m 128Mi', '200m 256Mi'), amounts('200m 256Mi', '400m 512Mi')];

    it('reports allocated and actual resources, and bounds containers without limits', async () => {
      const { status } = await startWithPodResources(
        'web',
        before,
        { name: 'c1' },
        { name: 'c2', resources: amounts('10m 16Mi', '20m 32Mi') },
      );
      expect(status).toMatchObject({ resources: before, allocatedResources: before.requests });
      await resizePod('web', after);
      const pod = await hasPodResources('web', after);
      expect(pod.status?.allocatedResources).toEqual(after.requests);
      expect(updates).toEqual([['c1', { cpuShares: 2, cpuPeriod: 100_000, cpuQuota: 40_000, memoryLimitBytes: 512 * 2 ** 20 }]]);
      expect(pod.status?.containerStatuses?.map(({ restartCount }) => restartCount)).toEqual([0, 0]);
      expect(bench.events.of('ResizeCompleted')).toHaveLength(1);
    });

    it('restarts containers whose resizePolicy requires it', async () => {
      await startWithPodResources('web', before, { name: 'c1', resizePolicy: restart }, { name: 'c2' });
      await resizePod('web', after);
      const pod = await hasPodResources('web', after);
      expect([container(pod, 'c1')?.restartCount, container(pod, 'c2')?.restartCount]).toEqual([1, 0]);
      expect(updates.map(([name]) => name)).toEqual(['c2']);
    });

    it('waits if the node lacks resources, and the pod keeps its own', async () => {
      await startWithPodResources('web', before, { name: 'c1' });
      await resizePod('web', amounts('3 128Mi', '3 256Mi'));
      await bench.until('web', () => condition('web', 'PodResizePending')?.reason === 'Infeasible');
      expect(bench.pod('web')?.status).toMatchObject({ resources: before, allocatedResources: before.requests });
      expect(updates).toEqual([]);
    });

    it('is retried after a failure, reports the difference, and completes after a restart of the kubelet', async () => {
      await startWithPodResources('web', before, { name: 'c1' });
      runtimeError = 'no';
      await resizePod('web', after);
      await bench.until('web', () => condition('web', 'PodResizeInProgress')?.reason === 'Error');
      expect(bench.pod('web')?.status).toMatchObject({ resources: before, allocatedResources: after.requests });
      await bench.restart();
      runtimeError = undefined;
      await hasPodResources('web', after);
      expect(updates.at(-1)).toMatchObject(['c1', { memoryLimitBytes: 512 * 2 ** 20 }]);
      expect(condition('web', 'PodResizeInProgress')).toBeUndefined();
    });
  });
});
