import { nodes as nodeResource, pods, services } from '@oarlock/api/resources';
import type { Node, Pod, PodSpec } from '@oarlock/api/types/core-v1';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { numFeasibleNodesToFind } from '../../src/framework/feasible-nodes.ts';
import { node, pod, testScheduler } from '../support/test-scheduler.ts';

// Inputs in the manner of upstream's tables of tests for its score plugins; the results follow from the formulas of 1.36.

let w: ReturnType<typeof testScheduler>;
afterEach(() => w.stop());

const mib = 1024 * 1024;

/** The scores of a plugin by node, multiplied with the plugin's weight. */
const scores = (plugin: string, of: Pod) => Object.fromEntries(w.explain(of).map((each) => [each.node, each.scores?.[plugin]]));
const sized = (name: string, cpu: string, memory: string, more: Record<string, string> = {}): Node => ({
  ...node(name),
  status: { allocatable: { cpu, memory, pods: '110', ...more } },
});
const requesting = (...requests: Record<string, string>[]): Partial<PodSpec> => ({
  containers: requests.map((each, index) => ({ name: `c${index}`, image: 'a:1', resources: { requests: each } })),
});
const cpuAndMemory = requesting({ cpu: '1000m', memory: '2000' }, { cpu: '2000m', memory: '3000' });
const cpuOnly = requesting({ cpu: '1000m', memory: '0' }, { cpu: '2000m', memory: '0' });

describe('NodeResourcesBalancedAllocation', () => {
  beforeEach(() => {
    w = testScheduler();
  });
  const score = (spec: Partial<PodSpec>) => scores('NodeResourcesBalancedAllocation', pod('new', spec));

  it('scores 75 for a pod that does not change the balance', async () => {
    w.seedNodes(sized('a', '4000m', '10000'), sized('b', '6000m', '10000'));
    await w.start();
    // a: from 0 and 0 to 0.75 and 0.5, a deviation of 0.125; b: to 0.5 and 0.5
    expect(score(cpuAndMemory)).toEqual({ a: 68, b: 75 });
  });

  it('compares the deviation with and without the pod', async () => {
    w.seedNodes(sized('a', '10000m', '20000'), sized('b', '10000m', '20000'));
    w.api.seed(pods, pod('1', { ...cpuOnly, nodeName: 'a' }), pod('2', { ...cpuAndMemory, nodeName: 'b' }));
    await w.start();
    // a: from 0.3 and 0 (0.15) to 0.6 and 0.25 (0.175); b: from 0.3 and 0.25 (0.025) to 0.6 and 0.5 (0.05)
    // each balance is rounded down first: a: 85 and 82; b: 97 and 95
    expect(score(cpuAndMemory)).toEqual({ a: 73, b: 74 });
    // a: from 0.15 to 0.15; b: from 0.025 to 0.025, with half of both resources
    expect(score(requesting({ cpu: '5000m', memory: '10000' }))).toEqual({ a: 75, b: 75 });
    // a: from 0.3 and 0 to 0.3 and 0.3; b: from 0.3 and 0.25 to 0.3 and 0.55
    expect(score(requesting({ memory: '6000' }))).toEqual({ a: 82, b: 70 });
  });

  it('scores 100 and 50 for the largest changes', async () => {
    w.seedNodes(sized('a', '1000m', '1000'), sized('b', '1000m', '1000'));
    w.api.seed(pods, pod('1', { ...requesting({ cpu: '1000m', memory: '0' }), nodeName: 'a' }));
    await w.start();
    expect(score(requesting({ cpu: '0', memory: '1000' }))).toEqual({ a: 100, b: 50 });
  });

  it('counts fractions above 1 as 1', async () => {
    w.seedNodes(sized('a', '4000m', '10000'));
    w.api.seed(pods, pod('1', { ...requesting({ cpu: '6000m', memory: '5000' }), nodeName: 'a' }));
    await w.start();
    // from 1 and 0.5 to 1 and 0.6
    expect(score(requesting({ memory: '1000' }))).toEqual({ a: 77 });
  });
});

describe('NodeResourcesFit', () => {
  const withStrategy = (scoringStrategy: Record<string, unknown>) =>
    testScheduler({ profiles: [{ pluginConfig: [{ name: 'NodeResourcesFit', args: { scoringStrategy } }] }] });
  const resources = [
    { name: 'cpu', weight: 1 },
    { name: 'memory', weight: 1 },
  ];
  const nodes = () => w.seedNodes(sized('a', '4000m', '10000'), sized('b', '6000m', '10000'));
  const score = (spec: Partial<PodSpec>) => scores('NodeResourcesFit', pod('new', spec));

  it('LeastAllocated scores the free share', async () => {
    w = withStrategy({ type: 'LeastAllocated', resources });
    nodes();
    await w.start();
    expect(score(cpuAndMemory)).toEqual({ a: 37, b: 50 });
  });

  it('MostAllocated scores the used share', async () => {
    w = withStrategy({ type: 'MostAllocated', resources });
    nodes();
    await w.start();
    expect(score(cpuAndMemory)).toEqual({ a: 62, b: 50 });
  });

  it('weighs resources', async () => {
    w = withStrategy({
      type: 'LeastAllocated',
      resources: [
        { name: 'cpu', weight: 3 },
        { name: 'memory', weight: 1 },
      ],
    });
    nodes();
    await w.start();
    expect(score(cpuAndMemory)).toEqual({ a: 31, b: 50 }); // (3 * 25 + 50) / 4
  });

  it('RequestedToCapacityRatio rounds the mean of the shape', async () => {
    w = withStrategy({
      type: 'RequestedToCapacityRatio',
      resources,
      requestedToCapacityRatio: {
        shape: [
          { utilization: 0, score: 10 },
          { utilization: 100, score: 0 },
        ],
      },
    });
    nodes();
    await w.start();
    expect(score(cpuAndMemory)).toEqual({ a: 38, b: 50 }); // (25 + 50) / 2, rounded
  });

  it('scores an extended resource only for pods that request it', async () => {
    w = withStrategy({
      type: 'RequestedToCapacityRatio',
      resources: [{ name: 'intel.com/foo', weight: 1 }],
      requestedToCapacityRatio: {
        shape: [
          { utilization: 0, score: 0 },
          { utilization: 100, score: 1 },
        ],
      },
    });
    w.seedNodes(sized('a', '4000m', '10Gi', { 'intel.com/foo': '8' }), sized('b', '4000m', '10Gi', { 'intel.com/foo': '4' }));
    await w.start();
    expect(score({})).toEqual({ a: 0, b: 0 });
    expect(score(requesting({ 'intel.com/foo': '2' }))).toEqual({ a: 2, b: 5 });
    expect(score(requesting({ 'intel.com/foo': '4' }))).toEqual({ a: 5, b: 10 });
  });
});

describe('ImageLocality', () => {
  beforeEach(() => {
    w = testScheduler();
  });
  const having = (name: string, images: Record<string, number>, spec?: Node['spec']): Node => {
    const one = node(name, {}, spec && { spec });
    const list = Object.entries(images).map(([image, size]) => ({ names: [image], sizeBytes: size * mib }));
    return { ...one, status: { ...one.status, images: list } };
  };
  const large = (spec?: Node['spec']) =>
    having('large', { 'gcr.io/40:latest': 40, 'gcr.io/300:latest': 300, 'gcr.io/2000:latest': 2000 }, spec);
  const small = () => having('small', { 'gcr.io/250:latest': 250, 'gcr.io/10:v1': 10 });
  const running = (...images: string[]): Partial<PodSpec> => ({
    containers: images.map((image, index) => ({ name: `c${index}`, image })),
  });
  const score = (spec: Partial<PodSpec>) => scores('ImageLocality', pod('new', spec));

  it('scores images on two nodes', async () => {
    w.seedNodes(large(), small());
    await w.start();
    expect(score(running('gcr.io/40', 'gcr.io/250'))).toEqual({ large: 0, small: 5 });
    expect(score(running('gcr.io/40', 'gcr.io/300'))).toEqual({ large: 7, small: 0 });
    expect(score(running('gcr.io/10:v1', 'gcr.io/2000'))).toEqual({ large: 49, small: 0 });
  });

  it('counts init containers', async () => {
    w.seedNodes(large(), small());
    await w.start();
    const initContainers = [{ name: 'init', image: 'gcr.io/300' }];
    expect(score({ ...running('gcr.io/40'), initContainers })).toEqual({ large: 7, small: 0 });
  });

  it('divides by all nodes, also those that do not fit', async () => {
    w.seedNodes(large(), small(), having('none', {}), having('off', { 'gcr.io/2000:latest': 2000 }, { unschedulable: true }));
    await w.start();
    // 2000 MiB on two of four nodes
    expect(score(running('gcr.io/10:v1', 'gcr.io/2000'))).toEqual({ large: 49, small: 0, none: 0, off: undefined });
  });

  it('follows nodes that come, change and go', async () => {
    w.seedNodes(large(), small());
    await w.start();
    await w.api.client().create(nodeResource, having('third', {}));
    await w.clock.settle();
    expect(score(running('gcr.io/10:v1', 'gcr.io/2000'))).toEqual({ large: 32, small: 0, third: 0 });
    await w.api.client().delete(nodeResource, { name: 'third' });
    await w.clock.settle();
    expect(score(running('gcr.io/10:v1', 'gcr.io/2000'))).toEqual({ large: 49, small: 0 });
  });

  it('counts image volumes, but not for the upper threshold', async () => {
    w.seedNodes(large(), small());
    await w.start();
    const volumes = [{ name: 'data', image: { reference: 'gcr.io/300' } }];
    // (40 + 300) / 2 MiB between 23 and 1000 MiB
    expect(score({ ...running('gcr.io/40'), volumes })).toEqual({ large: 15, small: 0 });
  });
});

describe('InterPodAffinity', () => {
  it('divides before it multiplies, as floating-point numbers', async () => {
    w = testScheduler();
    const zone = 'topology.kubernetes.io/zone';
    w.seedNodes(node('a', { [zone]: 'a' }), node('b', { [zone]: 'b' }), node('c', { [zone]: 'c' }));
    w.api.seed(pods, pod('1', { nodeName: 'a' }, { app: 'a' }), pod('2', { nodeName: 'b' }, { app: 'b' }));
    await w.start();
    const preferring = (weight: number, app: string) => ({
      weight,
      podAffinityTerm: { topologyKey: zone, labelSelector: { matchLabels: { app } } },
    });
    const preferredDuringSchedulingIgnoredDuringExecution = [preferring(29, 'a'), preferring(100, 'b')];
    const affinity = { podAffinity: { preferredDuringSchedulingIgnoredDuringExecution } };
    expect(scores('InterPodAffinity', pod('new', { affinity }))).toEqual({ a: 2 * 28, b: 2 * 100, c: 0 });
  });
});

describe('PodTopologySpread', () => {
  it('counts the nodes without a zone as one zone in the weight of the default constraints', async () => {
    w = testScheduler();
    const zone = 'topology.kubernetes.io/zone';
    w.seedNodes(node('a', { [zone]: 'a' }), node('b', { [zone]: 'b' }), node('c'));
    w.api.seed(services, { metadata: { namespace: 'd', name: 's' }, spec: { selector: { app: 's' } } });
    const existing = (name: string, nodeName: string) => pod(name, { nodeName }, { app: 's' });
    w.api.seed(pods, ...['1', '2', '3', '4'].map((name) => existing(name, 'a')), existing('5', 'b'), existing('6', 'c'));
    await w.start();
    // weights ln 5 for three hosts and ln 5 for two zones and none; maxSkew 3 and 5
    // a: 4 ln 5 + 2 + 4 ln 5 + 4 = 18.9; b: ln 5 + 2 + ln 5 + 4 = 9.2; c: ln 5 + 2 = 3.6
    expect(scores('PodTopologySpread', pod('new', {}, { app: 's' }))).toEqual({ a: 2 * 21, b: 2 * 73, c: 2 * 100 });
  });
});

describe('numFeasibleNodesToFind', () => {
  it('returns the numbers of upstream', () => {
    w = testScheduler();
    const cases: readonly (readonly [nodes: number, percentage: number | undefined, wanted: number])[] = [
      [10, undefined, 10],
      [10, 40, 10],
      [1000, undefined, 420],
      [1000, 40, 400],
      [6000, undefined, 300],
      [6000, 40, 2400],
    ];
    for (const [count, percentage, wanted] of cases) expect(numFeasibleNodesToFind(count, percentage)).toBe(wanted);
  });
});
