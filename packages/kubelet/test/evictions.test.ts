import { afterEach, describe, expect, it } from 'vitest';
import { SimulatedRuntime } from '@oarlock/runtime-simulated/simulated-runtime';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { silentLogger } from '@oarlock/kernel/logger';
import { nodes } from '@oarlock/api/resources';
import { kubeletConfig } from '../src/kubelet-config.ts';
import { evictionOrder, isCritical, overOwnLimits } from '../src/node/eviction-order.ts';
import { ImageCollector } from '../src/node/image-collector.ts';
import type { Observations } from '../src/node/observations.ts';
import type { PodUsage } from '../src/node/pod-usage.ts';
import { Thresholds } from '../src/node/thresholds.ts';
import { app, Bench, podOf } from './bench.ts';

const Mi = 2 ** 20;
const memory = (available: number): Observations => ({ 'memory.available': { available: available * Mi, capacity: 1000 * Mi } });

describe('thresholds', () => {
  const config = kubeletConfig.parse({
    nodeName: 'a',
    evictionHard: { memoryAvailable: '10%' },
    evictionSoft: { memoryAvailable: { below: '300Mi', forSeconds: 60 } },
    evictionMinimumReclaim: { memoryAvailable: '50Mi' },
  });

  it('are met at once or after a while, want some more before they are left, and their condition lasts', () => {
    const thresholds = new Thresholds(config);
    expect(thresholds.look(memory(500), 0).memory).toBe(false);
    expect(thresholds.look(memory(200), 1000).memory).toBe(true);
    expect(thresholds.shortages).toEqual([]);
    thresholds.look(memory(200), 61_000);
    expect(thresholds.shortages).toEqual([
      { signal: 'memory.available', resource: 'memory', soft: true, limit: '300Mi', available: '200Mi' },
    ]);
    thresholds.look(memory(90), 62_000);
    expect(thresholds.shortages.map(({ soft }) => soft)).toEqual([false, true]);
    expect(thresholds.look(memory(340), 63_000).memory).toBe(true); // not 50Mi beyond 300Mi yet
    expect(thresholds.shortages.map(({ limit }) => limit)).toEqual(['300Mi']);
    expect(thresholds.look(memory(360), 64_000).memory).toBe(true);
    expect(thresholds.shortages).toEqual([]);
    expect(thresholds.look(memory(360), 363_999).memory).toBe(false);
  });
});

const usage = (bytes: number, more: Partial<PodUsage> = {}): PodUsage => ({
  memory: bytes,
  disk: bytes,
  inodes: 0,
  containers: new Map(),
  volumes: new Map(),
  ...more,
});

describe('who goes first', () => {
  it('takes more than it asked for, then matters less, then takes most', () => {
    const pod = (name: string, request: string, priority: number) =>
      podOf(name, { priority, containers: [app({ resources: { requests: { memory: request } } })] });
    const all = [
      { pod: pod('modest', '100Mi', 0), usage: usage(50 * Mi) },
      { pod: pod('greedy', '10Mi', 0), usage: usage(100 * Mi) },
      { pod: pod('greediest', '10Mi', 0), usage: usage(200 * Mi) },
      { pod: pod('important', '10Mi', 5), usage: usage(900 * Mi) },
    ];
    expect(evictionOrder(all, 'memory').map(({ pod: one }) => one.metadata?.name)).toEqual(['greediest', 'greedy', 'important', 'modest']);
  });

  it('is not a static pod, and is one that only says that it is', () => {
    const pod = (uid: string) => ({ ...podOf('web'), metadata: { name: 'web', uid, annotations: { 'kubernetes.io/config.hash': 'abc' } } });
    expect(isCritical(pod('abc'))).toBe(true);
    expect(isCritical(pod('0b1c'))).toBe(false);
    expect(isCritical(podOf('web', { priority: 2_000_000_000 }))).toBe(true);
  });

  it('takes more of the disk than its own limits allow', () => {
    const pod = podOf('web', {
      volumes: [{ name: 'v', emptyDir: { sizeLimit: '1Mi' } }],
      containers: [app({ resources: { limits: { 'ephemeral-storage': '2Mi' } } })],
    });
    const candidate = (volume: number, container: number, disk: number) => ({
      pod,
      usage: usage(0, { disk, volumes: new Map([['v', volume]]), containers: new Map([['app', { memory: 0, disk: container }]]) }),
    });
    expect(overOwnLimits(candidate(Mi, Mi, 2 * Mi))).toBeUndefined();
    expect(overOwnLimits(candidate(Mi + 1, 0, 0))).toBe('Usage of EmptyDir volume "v" exceeds the limit "1Mi". ');
    expect(overOwnLimits(candidate(0, 2 * Mi + 1, 0))).toBe('Container app exceeded its local ephemeral storage limit "2Mi". ');
    expect(overOwnLimits(candidate(Mi, Mi, 3 * Mi))).toBe('Pod ephemeral local storage usage exceeds the total limit of containers 2Mi. ');
  });
});

describe('a node that is short of memory', () => {
  let bench: Bench;
  let seen = memory(500);
  afterEach(() => bench.dispose());

  it('says so, evicts one pod at a time until there is enough, and takes no pods that ask for nothing', async () => {
    seen = memory(500);
    bench = new Bench({ observe: () => Promise.resolve(seen) });
    await bench.start();
    const needs = (memoryMib: string) => ({ 'simulated.oarlock.dev/memory-mib': memoryMib });
    bench.create(podOf('small', {}, needs('10')));
    bench.create(podOf('large', {}, needs('300')));
    bench.create(podOf('critical', { priority: 2_000_000_000 }, needs('900')));
    for (const name of ['small', 'large', 'critical']) await bench.ready(name);
    seen = memory(50);
    const evicted = await bench.until('large', (pod) => pod?.status?.phase === 'Failed');
    seen = memory(400);
    expect(evicted.status).toMatchObject({ reason: 'Evicted' });
    expect(evicted.status?.message).toBe(
      'The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. Container app was using 300Mi, request is 0, has larger consumption of memory. ',
    );
    expect(evicted.status?.conditions?.find(({ type }) => type === 'DisruptionTarget')).toMatchObject({
      status: 'True',
      reason: 'TerminationByKubelet',
    });
    expect(bench.events.of('Evicted')).toHaveLength(1);
    expect(bench.pod('small')?.status?.phase).toBe('Running');
    const condition = () =>
      bench.api.object(nodes, { name: 'node-a' })?.status?.conditions?.find(({ type }) => type === 'MemoryPressure')?.status;
    expect(condition()).toBe('True');
    bench.create(podOf('late'));
    expect((await bench.until('late', (pod) => pod?.status?.phase === 'Failed')).status).toMatchObject({
      reason: 'Evicted',
      message: 'The node had condition: [MemoryPressure]. ',
    });
    await bench.clock.runUntil(() => condition() === 'False', { within: 400_000, what: 'the pressure is over' });
    bench.create(podOf('later'));
    await bench.ready('later');
    expect(bench.pod('small')?.status?.phase).toBe('Running');
    expect(bench.pod('critical')?.status?.phase).toBe('Running');
  });
});

describe('images that nobody uses', () => {
  it('go when the disk is full, the longest unused first, and not before they are old enough', async () => {
    const clock = new FakeClock();
    const runtime = new SimulatedRuntime(clock, { images: ['one:1', 'two:1', 'three:1'] });
    let available = 50;
    const told: string[] = [];
    const collector = new ImageCollector({
      driver: runtime,
      clock,
      log: silentLogger,
      high: 85,
      low: 80,
      minAgeMs: 120_000,
      maxAgeMs: 0,
      removed: () => undefined,
      tell: (reason) => told.push(reason),
      disk: () => Promise.resolve({ capacity: 100 * Mi, available: available * Mi }),
    });
    const names = async () => (await runtime.listImages()).flatMap(({ repoTags }) => repoTags);
    const { signal } = new AbortController();
    await collector.look(signal);
    expect(await names()).toHaveLength(3);
    available = 14;
    await collector.look(signal);
    expect(await names()).toHaveLength(3); // too young
    expect(told).toEqual(['FreeDiskSpaceFailed']);
    await clock.advance(121_000);
    available = 18;
    await collector.look(signal);
    expect(await names()).toHaveLength(3); // not full enough
    available = 15;
    await collector.look(signal);
    expect(await names()).toEqual([]); // 1Mi each, and 5Mi were wanted
  });
});
