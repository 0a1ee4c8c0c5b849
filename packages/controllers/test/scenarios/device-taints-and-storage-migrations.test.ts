import {
  configMaps,
  deviceTaintRulesV1beta2,
  pods,
  resourceClaims,
  resourceSlices,
  storageVersionMigrationsV1beta1,
} from '@oarlock/api/resources';
import { formatTime } from '@oarlock/api/values/time';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { DeviceTaint, DeviceToleration, ResourceClaim, ResourceSlice, ResourceSliceSpec } from '@oarlock/api/types/resource-v1';
import deviceTaintEviction from '@oarlock/controllers/dynamic-resources/device-taint-eviction/device-taint-eviction-controller';
import storageVersionMigration from '@oarlock/controllers/api-machinery/storage-version-migration/storage-version-migration-controller';
import { controllerPluginContract } from '@oarlock/testing/controller-contract';
import type { MemoryApi } from '@oarlock/testing/memory-api';
import { describe, expect, it } from 'vitest';
import { at, runControllers } from '../support/running-controllers.ts';

const pod = (name: string): Pod => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { namespace: 'd', name },
  spec: { nodeName: 'n', containers: [{ name: 'c', image: 'a' }], resourceClaims: [{ name: 'x', resourceClaimName: name }] },
});
/** Returns a claim for the device of the same name, reserved for the pod of the same name. */
const claim = (api: MemoryApi, name: string, tolerations?: readonly DeviceToleration[]): ResourceClaim => ({
  apiVersion: 'resource.k8s.io/v1',
  kind: 'ResourceClaim',
  metadata: { namespace: 'd', name },
  spec: {},
  status: {
    allocation: {
      devices: { results: [{ driver: 'gpu.example.com', pool: 'p', device: name, request: 'r', ...(tolerations && { tolerations }) }] },
    },
    reservedFor: [{ resource: 'pods', name, uid: api.object(pods, at(name))?.metadata?.uid ?? '' }],
  },
});
const slice = (
  taints: Readonly<Record<string, readonly DeviceTaint[]>>,
  generation = 1,
  location: Pick<ResourceSliceSpec, 'nodeName' | 'allNodes'> = { nodeName: 'n' },
): ResourceSlice => ({
  apiVersion: 'resource.k8s.io/v1',
  kind: 'ResourceSlice',
  metadata: { name: `s-${location.nodeName ?? 'shared'}` },
  spec: {
    driver: 'gpu.example.com',
    ...location,
    pool: { name: 'p', generation, resourceSliceCount: 1 },
    devices: Object.entries(taints).map(([name, own]) => ({ name, taints: own })),
  },
});
const broken: DeviceTaint = { key: 'broken', effect: 'NoExecute', timeAdded: '1970-01-01T00:00:00Z' };
const names = (api: MemoryApi) =>
  api
    .objects(pods, 'd')
    .filter(({ metadata }) => metadata?.deletionTimestamp === undefined)
    .map(({ metadata }) => metadata?.name)
    .sort();

describe('DeviceTaintEvictionController', () => {
  it('deletes pods whose claim does not tolerate the taint, and others after their toleration ends', async () => {
    const { api, clock, messages } = await runControllers([deviceTaintEviction], {
      defaults: false,
      seed: (memory, time) => {
        const added = new Date(time.now()).toISOString().replace(/\.\d+Z$/, 'Z');
        memory.seed(pods, pod('a'), pod('b'), pod('c'), pod('d'), {
          ...pod('e'),
          spec: { ...pod('e').spec, nodeName: '', containers: [] },
        });
        memory.seed(
          resourceClaims,
          claim(memory, 'a'),
          claim(memory, 'b', [{ key: 'broken', operator: 'Exists' }]),
          claim(memory, 'c', [{ operator: 'Exists', tolerationSeconds: 30 }]),
          claim(memory, 'd'),
          claim(memory, 'e'),
        );
        const taint = { ...broken, timeAdded: added };
        memory.seed(resourceSlices, slice({ a: [taint], b: [taint], c: [taint], d: [{ ...taint, effect: 'NoSchedule' }], e: [taint] }));
      },
    });
    await clock.settle();
    expect(names(api)).toEqual(['b', 'c', 'd', 'e']);
    expect(messages('DeviceTaintManagerEviction')).toEqual(['Marking for deletion']);
    await clock.advance(28_000);
    expect(names(api)).toEqual(['b', 'c', 'd', 'e']);
    await clock.advance(4_000);
    expect(names(api)).toEqual(['b', 'd', 'e']);
    // a pod that is bound to a node with a tainted device
    await api.client().patch(pods, at('e'), 'merge', { spec: { nodeName: 'n' } });
    await clock.settle();
    expect(names(api)).toEqual(['b', 'd']);
  });

  describe('with slices of the same pool on another node', () => {
    const evicted = async (...slices: readonly ResourceSlice[]) => {
      const { api, clock } = await runControllers([deviceTaintEviction], {
        defaults: false,
        seed: (memory) => {
          memory.seed(pods, pod('a'));
          memory.seed(resourceClaims, claim(memory, 'a'));
          memory.seed(resourceSlices, ...slices);
        },
      });
      await clock.settle();
      return names(api).length === 0;
    };
    const other = { nodeName: 'other' };

    it('ignores their taints, whatever their generation', async () => {
      expect(await evicted(slice({ a: [] }), slice({ a: [broken] }, 99, other))).toBe(false);
      expect(await evicted(slice({ a: [] }), slice({ a: [broken] }, 1, other))).toBe(false);
      expect(await evicted(slice({ a: [] }, 1, { allNodes: true }), slice({ a: [broken] }, 99, other))).toBe(false);
    });

    it('evicts for a taint of the own node, which a newer generation of another node does not hide', async () => {
      expect(await evicted(slice({ a: [broken] }), slice({ a: [] }, 99, other))).toBe(true);
      expect(await evicted(slice({ a: [broken] }, 1, { allNodes: true }), slice({ a: [] }, 99, other))).toBe(true);
    });

    it('uses the newest generation of the slices of the own node and of all nodes', async () => {
      expect(await evicted(slice({ a: [] }), slice({ a: [broken] }, 2, { allNodes: true }))).toBe(true);
      expect(await evicted(slice({ a: [broken] }), slice({ a: [] }, 2, { allNodes: true }))).toBe(false);
    });
  });

  describe('reports in the rule status', () => {
    const rule = (effect: string, now: number) => ({
      apiVersion: 'resource.k8s.io/v1beta2',
      kind: 'DeviceTaintRule',
      metadata: { name: 'r', generation: 1 },
      spec: { deviceSelector: { driver: 'gpu.example.com' }, taint: { ...broken, effect, timeAdded: formatTime(now) } },
    });
    const conditionsOf = (api: MemoryApi) => api.object(deviceTaintRulesV1beta2, { name: 'r' })?.status?.conditions ?? [];
    const living = (effect: string) =>
      runControllers([deviceTaintEviction], {
        defaults: false,
        served: ['resource.k8s.io/v1beta2'],
        seed: (memory, time) => {
          memory.seed(pods, pod('a'), pod('b'), pod('c'));
          memory.seed(
            resourceClaims,
            claim(memory, 'a'),
            claim(memory, 'b', [{ operator: 'Exists', tolerationSeconds: 40 }]),
            claim(memory, 'c', [{ operator: 'Exists' }]),
          );
          memory.seed(resourceSlices, slice({ a: [], b: [], c: [], d: [] }));
          memory.seed(deviceTaintRulesV1beta2, rule(effect, time.now()));
        },
      });

    it.each([
      [
        'None',
        'NoEffect',
        '4 published devices selected. 3 allocated devices selected. 2 pods would be evicted in 1 namespace if the effect was NoExecute. This information will not be updated again. Recreate the DeviceTaintRule to trigger an update.',
      ],
      ['NoSchedule', 'OtherEffect', 'Eviction only happens for the NoExecute effect.'],
    ])('effect %s: %s', async (effect, reason, message) => {
      const { api, clock } = await living(effect);
      await clock.advance(1_000);
      expect(conditionsOf(api)).toEqual([
        { type: 'EvictionInProgress', status: 'False', reason, message, observedGeneration: 1, lastTransitionTime: expect.any(String) },
      ]);
      expect(names(api)).toEqual(['a', 'b', 'c']);
    });

    it('with NoExecute: the number of remaining pods, and completion', async () => {
      const { api, clock } = await living('NoExecute');
      await clock.advance(12_000);
      expect(names(api)).toEqual(['b', 'c']);
      expect(conditionsOf(api)).toMatchObject([
        {
          status: 'True',
          reason: 'PodsPendingEviction',
          message: '1 pod needs to be evicted in 1 namespace. 1 pod evicted since starting the controller.',
        },
      ]);
      await clock.advance(50_000);
      expect(names(api)).toEqual(['c']);
      expect(conditionsOf(api)).toMatchObject([
        { status: 'False', reason: 'Completed', message: '2 pods evicted since starting the controller.' },
      ]);
    });
  });

  controllerPluginContract(
    deviceTaintEviction,
    [
      {
        title: 'a device that becomes tainted, and a rule for another',
        steps: [
          (api) => {
            api.seed(pods, pod('a'), pod('b'), pod('c'));
            api.seed(resourceClaims, claim(api, 'a'), claim(api, 'b'), claim(api, 'c'));
            api.seed(resourceSlices, slice({ a: [], b: [], c: [] }));
          },
          (api) => void api.seed(resourceSlices, slice({ a: [broken], b: [], c: [] }, 2)),
          (api) =>
            void api.seed(deviceTaintRulesV1beta2, {
              apiVersion: 'resource.k8s.io/v1beta2',
              kind: 'DeviceTaintRule',
              metadata: { name: 'r' },
              spec: { deviceSelector: { driver: 'gpu.example.com', device: 'b' }, taint: broken },
            }),
        ],
        expectResult: (api) => expect(names(api)).toEqual(['c']),
      },
    ],
    { served: ['resource.k8s.io/v1beta2'] },
  );
});

describe('StorageVersionMigrationController', () => {
  const migration = (name: string, group: string, resource: string) => ({
    apiVersion: 'storagemigration.k8s.io/v1beta1',
    kind: 'StorageVersionMigration',
    metadata: { name },
    spec: { resource: { group, resource } },
  });
  const conditions = (api: MemoryApi, name: string) =>
    Object.fromEntries(
      (api.object(storageVersionMigrationsV1beta1, { name })?.status?.conditions ?? []).map(({ type, status, reason }) => [
        type,
        `${status} ${reason}`,
      ]),
    );
  controllerPluginContract(
    storageVersionMigration,
    [
      {
        title: 'rewrites each object and reports the result',
        steps: [
          (api) =>
            void api.seed(
              configMaps,
              ...['a', 'b', 'c'].map((name) => ({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { namespace: 'd', name } })),
            ),
          (api) =>
            void api.seed(storageVersionMigrationsV1beta1, migration('all', '', 'configmaps'), migration('none', 'example.com', 'things')),
        ],
        expectResult(api) {
          expect(conditions(api, 'all')).toEqual({ Succeeded: 'True StorageVersionMigrationSucceeded' });
          expect(api.object(storageVersionMigrationsV1beta1, { name: 'all' })?.status?.resourceVersion).toMatch(/^\d+$/);
          expect(conditions(api, 'none')).toEqual({ Failed: 'True StorageVersionMigrationFailed' });
        },
      },
    ],
    { served: ['storagemigration.k8s.io/v1beta1'] },
  );
});
