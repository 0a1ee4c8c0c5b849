import { afterEach, describe, expect, it } from 'vitest';
import { SimulatedRuntime } from '@oarlock/runtime-simulated/simulated-runtime';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { silentLogger } from '@oarlock/primitives/logger';
import { nodes } from '@oarlock/api/resources';
import { kubeletConfig } from '../../src/config/kubelet-config.ts';
import { rankPodsForEviction, localStorageLimitExceeded } from '../../src/eviction/eviction-ranking.ts';
import { isCriticalPod } from '../../src/pod-util/pods.ts';
import { ImageGCManager } from '../../src/images/image-gc-manager.ts';
import type { SignalObservations } from '../../src/eviction/signal-observations.ts';
import type { PodUsage } from '../../src/stats/pod-usage.ts';
import { EvictionThresholds } from '../../src/eviction/thresholds.ts';
import { app, Bench, podOf } from '../support/bench.ts';

const Mi = 2 ** 20;
const memory = (available: number): SignalObservations => ({ 'memory.available': { available: available * Mi, capacity: 1000 * Mi } });

describe('EvictionThresholds', () => {
  const config = kubeletConfig.parse({
    nodeName: 'a',
    evictionHard: { memoryAvailable: '10%' },
    evictionSoft: { memoryAvailable: { below: '300Mi', forSeconds: 60 } },
    evictionMinimumReclaim: { memoryAvailable: '50Mi' },
  });

  it('applies grace periods, minimum reclaim and the transition period', () => {
    const thresholds = new EvictionThresholds(config);
    expect(thresholds.update(memory(500), 0).memory).toBe(false);
    expect(thresholds.update(memory(200), 1000).memory).toBe(true);
    expect(thresholds.metThresholds).toEqual([]);
    thresholds.update(memory(200), 61_000);
    expect(thresholds.metThresholds).toEqual([
      { signal: 'memory.available', resource: 'memory', soft: true, limit: '300Mi', available: '200Mi' },
    ]);
    thresholds.update(memory(90), 62_000);
    expect(thresholds.metThresholds.map(({ soft }) => soft)).toEqual([false, true]);
    expect(thresholds.update(memory(340), 63_000).memory).toBe(true); // not 50Mi above 300Mi yet
    expect(thresholds.metThresholds.map(({ limit }) => limit)).toEqual(['300Mi']);
    expect(thresholds.update(memory(360), 64_000).memory).toBe(true);
    expect(thresholds.metThresholds).toEqual([]);
    expect(thresholds.update(memory(360), 363_999).memory).toBe(false);
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

describe('eviction ranking', () => {
  it('sorts by excess over requests, then priority, then usage', () => {
    const pod = (name: string, request: string, priority: number) =>
      podOf(name, { priority, containers: [app({ resources: { requests: { memory: request } } })] });
    const all = [
      { pod: pod('modest', '100Mi', 0), usage: usage(50 * Mi) },
      { pod: pod('greedy', '10Mi', 0), usage: usage(100 * Mi) },
      { pod: pod('greediest', '10Mi', 0), usage: usage(200 * Mi) },
      { pod: pod('important', '10Mi', 5), usage: usage(900 * Mi) },
    ];
    expect(rankPodsForEviction(all, 'memory').map(({ pod: one }) => one.metadata?.name)).toEqual([
      'greediest',
      'greedy',
      'important',
      'modest',
    ]);
  });

  it('spares static pods, but not pods that only have their annotation', () => {
    const hash = 'd41d8cd98f00b204e9800998ecf8427e';
    const pod = (uid: string, annotation = hash) => ({
      ...podOf('web'),
      metadata: { name: 'web', uid, annotations: { 'kubernetes.io/config.hash': annotation } },
    });
    expect(isCriticalPod(pod(hash))).toBe(true);
    expect(isCriticalPod(pod('0b1c'))).toBe(false);
    // a copy of the uid of the pod, which users can set
    const uid = '5d1ccd2b-2b5c-4f0e-9d7c-0a4a3c6e9a11';
    expect(isCriticalPod(pod(uid, uid))).toBe(false);
    expect(isCriticalPod(podOf('web', { priority: 2_000_000_000 }))).toBe(true);
  });

  it('finds pods that exceed their limits of local storage', () => {
    const pod = podOf('web', {
      volumes: [{ name: 'v', emptyDir: { sizeLimit: '1Mi' } }],
      containers: [app({ resources: { limits: { 'ephemeral-storage': '2Mi' } } })],
    });
    const candidate = (volume: number, container: number, disk: number) => ({
      pod,
      usage: usage(0, { disk, volumes: new Map([['v', volume]]), containers: new Map([['app', { memory: 0, disk: container }]]) }),
    });
    expect(localStorageLimitExceeded(candidate(Mi, Mi, 2 * Mi))).toBeUndefined();
    expect(localStorageLimitExceeded(candidate(Mi + 1, 0, 0))).toMatchObject({
      signal: 'emptydirfs.limit',
      message: 'Usage of EmptyDir volume "v" exceeds the limit "1Mi". ',
    });
    expect(localStorageLimitExceeded(candidate(0, 2 * Mi + 1, 0))).toMatchObject({
      message: 'Container app exceeded its local ephemeral storage limit "2Mi". ',
    });
    expect(localStorageLimitExceeded(candidate(Mi, Mi, 3 * Mi))).toMatchObject({
      signal: 'ephemeralpodfs.limit',
      message: 'Pod ephemeral local storage usage exceeds the total limit of containers 2Mi. ',
    });
  });
});

describe('a node with memory pressure', () => {
  let bench: Bench;
  let seen = memory(500);
  afterEach(() => bench.dispose());

  it('reports it, evicts one pod at a time until enough is free, and rejects best-effort pods', async () => {
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

describe('ImageGCManager', () => {
  it('removes unused images above the threshold, least recently used first, if they are old enough', async () => {
    const clock = new FakeClock();
    const runtime = new SimulatedRuntime(clock, { images: ['one:1', 'two:1', 'three:1'] });
    let available = 50;
    const events: string[] = [];
    const collector = new ImageGCManager({
      driver: runtime,
      clock,
      log: silentLogger,
      highThresholdPercent: 85,
      lowThresholdPercent: 80,
      minAgeMs: 120_000,
      maxAgeMs: 0,
      imagesRemoved: () => undefined,
      recordNodeEvent: (reason, message) => events.push(`${reason}: ${message}`),
      disk: () => Promise.resolve({ capacity: 100 * Mi, available: available * Mi }),
    });
    const names = async () => (await runtime.listImages()).flatMap(({ repoTags }) => repoTags);
    const { signal } = new AbortController();
    await collector.garbageCollect(signal);
    expect(await names()).toHaveLength(3);
    available = 14;
    await collector.garbageCollect(signal);
    expect(await names()).toHaveLength(3); // too young
    expect(events).toEqual([
      "FreeDiskSpaceFailed: Insufficient free disk space on the node's image filesystem (86.0% of 100.0 MiB used). " +
        'Failed to free sufficient space by deleting unused images. Consider resizing the disk or deleting unused files.',
    ]);
    await clock.advance(121_000);
    available = 18;
    await collector.garbageCollect(signal);
    expect(await names()).toHaveLength(3); // not full enough
    available = 15;
    await collector.garbageCollect(signal);
    expect(await names()).toEqual([]); // 1Mi each, and 5Mi were needed
  });
});
