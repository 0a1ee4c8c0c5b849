import type { Node } from '@oarlock/api/types/core-v1';
import type { Device, ResourceSlice, ResourceSliceSpec } from '@oarlock/api/types/resource-v1';
import { describe, expect, it } from 'vitest';
import { DevicePools } from '../../../../src/plugins/dynamic-resources/internal/device-pools.ts';

const driver = 'gpu.example.com';
const node = (name: string, labels: Record<string, string> = {}): Node => ({
  apiVersion: 'v1',
  kind: 'Node',
  metadata: { name, labels: { 'kubernetes.io/hostname': name, ...labels } },
});
/** Returns a slice of the pool `a` in generation 1. */
const slice = (
  name: string,
  {
    generation = 1,
    count = 1,
    pool = 'a',
    ...spec
  }: Omit<Partial<ResourceSliceSpec>, 'pool'> & { generation?: number; count?: number; pool?: string },
): ResourceSlice => ({
  apiVersion: 'resource.k8s.io/v1',
  kind: 'ResourceSlice',
  metadata: { name },
  spec: { driver, pool: { name: pool, generation, resourceSliceCount: count }, ...spec },
});
const devices = (...names: string[]): readonly Device[] => names.map((name) => ({ name }));
const part = (name: string, value = '1Gi', counter = 'memory'): Device => ({
  name,
  consumesCounters: [{ counterSet: 'card', counters: { [counter]: { value } } }],
});
const card = [{ name: 'card', counters: { memory: { value: '40Gi' } } }];
/** Returns the pools of a node as `pool: device,device`, or with the reason why the pool has none. */
const poolsOf = (name: string, ...slices: ResourceSlice[]): readonly string[] =>
  new DevicePools(slices)
    .poolsForNode(node(name))
    .map(
      (pool) => `${pool.name}: ${pool.incomplete ? 'incomplete' : (pool.invalid ?? pool.devices.map(({ device }) => device.name).join())}`,
    );

describe('pools of one node', () => {
  const own = slice('own', { nodeName: 'a', devices: devices('g0', 'g1') });

  it.each<[string, ResourceSlice]>([
    ['a newer generation', slice('other', { nodeName: 'b', generation: 99, devices: devices('x') })],
    ['the same generation', slice('other', { nodeName: 'b', devices: devices('g0') })],
    ['a newer generation with missing slices', slice('other', { nodeName: 'b', generation: 99, count: 7, devices: devices('x') })],
    ['counters of a newer generation', slice('other', { nodeName: 'b', generation: 99, sharedCounters: card })],
    ['counters of the same generation', slice('other', { nodeName: 'b', sharedCounters: card })],
    [
      'a newer generation with node selection by device',
      slice('other', { perDeviceNodeSelection: true, generation: 99, devices: [{ name: 'x', nodeName: 'b' }] }),
    ],
  ])('keep their devices if another node publishes %s', (_, other) => {
    expect(poolsOf('a', own, other)).toEqual(['a: g0,g1']);
    expect(poolsOf('a', other, own)).toEqual(['a: g0,g1']);
  });

  it('with several slices and counters keep their devices if another node publishes a newer generation', () => {
    const whole = [
      slice('s1', { nodeName: 'a', count: 3, devices: [part('g0')] }),
      slice('s2', { nodeName: 'a', count: 3, devices: [part('g1')] }),
      slice('s3', { nodeName: 'a', count: 3, sharedCounters: card }),
    ];
    const attacks = [
      slice('x1', { nodeName: 'b', generation: 2, sharedCounters: card }),
      slice('x2', { nodeName: 'b', generation: 2, devices: devices('x') }),
      slice('x3', { nodeName: 'b', count: 3, sharedCounters: card }),
    ];
    expect(poolsOf('a', ...attacks, ...whole)).toEqual(['a: g0,g1']);
  });

  it('use the newest generation of the slices of the node', () => {
    expect(poolsOf('a', slice('new', { nodeName: 'a', generation: 2, devices: devices('g7') }), own)).toEqual(['a: g7']);
  });
});

describe('pools of several nodes', () => {
  it('are whole if the slices of all nodes exist', () => {
    const [a, b] = ['a', 'b'].map((name) => slice(name, { nodeName: name, count: 2, devices: devices(`g-${name}`) })) as [
      ResourceSlice,
      ResourceSlice,
    ];
    expect(poolsOf('a', a, b)).toEqual(['a: g-a']);
    expect(poolsOf('b', a, b)).toEqual(['a: g-b']);
    expect(poolsOf('a', a)).toEqual(['a: incomplete']);
    expect(poolsOf('c', a, b)).toEqual([]);
  });

  it('are withdrawn from a node while the driver publishes a newer generation', () => {
    const old = ['a', 'b'].map((name) => slice(name, { nodeName: name, count: 2, devices: devices(`g-${name}`) }));
    expect(poolsOf('a', ...old, slice('new', { nodeName: 'b', generation: 2, count: 2, devices: devices('g-b') }))).toEqual([]);
  });

  it('count the consumers of shared counters on all nodes', () => {
    const slices = [
      slice('counters', { allNodes: true, count: 3, sharedCounters: card }),
      slice('a', { nodeName: 'a', count: 3, devices: [part('g-a')] }),
      slice('b', { nodeName: 'b', count: 3, devices: [part('g-b')] }),
    ];
    const [pool] = new DevicePools(slices).poolsForNode(node('a'));
    expect(pool?.devices.map(({ id }) => id)).toEqual([`${driver}/a/g-a`]);
    expect(pool?.consumers.map(([id]) => id)).toEqual([`${driver}/a/g-a`, `${driver}/a/g-b`]);
    expect(new DevicePools(slices).poolsForNode(node('c'))).toEqual([]);
  });
});

it.each<[string, ResourceSlice[]]>([
  [
    'duplicate device name g0',
    [slice('1', { nodeName: 'a', count: 2, devices: devices('g0') }), slice('2', { nodeName: 'a', count: 2, devices: devices('g0') })],
  ],
  [
    'duplicate counter set name card',
    [slice('1', { nodeName: 'a', count: 2, sharedCounters: card }), slice('2', { nodeName: 'a', count: 2, sharedCounters: card })],
  ],
  ['counter set card not found', [slice('1', { nodeName: 'a', devices: [part('g0')] })]],
  [
    'counter cores not found in counter set card',
    [
      slice('1', { nodeName: 'a', count: 2, devices: [part('g0', '1', 'cores')] }),
      slice('2', { nodeName: 'a', count: 2, sharedCounters: card }),
    ],
  ],
])('reports invalid pools: %s', (reason, slices) => {
  expect(poolsOf('a', ...slices)).toEqual([`a: ${reason}`]);
});

it('orders pools by driver and name, and slices by name', () => {
  const slices = [
    slice('z', { nodeName: 'a', pool: 'p1', count: 2, devices: devices('g9') }),
    slice('y', { nodeName: 'a', pool: 'p1', count: 2, devices: devices('g5') }),
    slice('x', { nodeName: 'a', pool: 'p0', devices: [{ name: 'g0', bindingConditions: ['ready'] }] }),
    slice('w', { allNodes: true, pool: 'p2', devices: devices('g1') }),
  ];
  expect(poolsOf('a', ...slices)).toEqual(['p1: g5,g9', 'p2: g1', 'p0: g0']);
});
