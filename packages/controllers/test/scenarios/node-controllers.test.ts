import { formatTime } from '@oarlock/api/values/time';
import { leases, nodes, pods } from '@oarlock/api/resources';
import { failure } from '@oarlock/api/status';
import type { Node, NodeCondition, Pod, Taint, Toleration } from '@oarlock/api/types/core-v1';
import nodeLifecycle from '@oarlock/controllers/node/node-lifecycle/node-lifecycle-controller';
import taintEviction from '@oarlock/controllers/node/taint-eviction/taint-eviction-controller';
import { controllerPluginContract } from '@oarlock/testing/controller-contract';
import type { MemoryApi } from '@oarlock/testing/memory-api';
import { describe, expect, it } from 'vitest';
import { at, runControllers, named, type RunningControllers } from '../support/running-controllers.ts';

const node = (name: string, zone = '', ready = 'True'): Node => ({
  apiVersion: 'v1',
  kind: 'Node',
  metadata: { name, labels: { 'topology.kubernetes.io/zone': zone } },
  spec: {},
  status: { conditions: [{ type: 'Ready', status: ready, reason: 'KubeletReady' }] },
});
const pod = (name: string, tolerations: readonly Toleration[] = [], nodeName = 'n1'): Pod => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { namespace: 'd', name },
  spec: { nodeName, containers: [{ name: 'c', image: 'a' }], tolerations },
  status: { phase: 'Running' },
});
const taint: Taint = { key: 'sick', effect: 'NoExecute' };
const setTaints = (api: MemoryApi, taints: readonly Taint[]) => api.client().patch(nodes, { name: 'n1' }, 'merge', { spec: { taints } });
const deleted = (api: MemoryApi) => named(api.objects(pods, 'd').filter(({ metadata }) => metadata?.deletionTimestamp !== undefined));

describe('TaintEvictionController', () => {
  const bears = (seconds?: number): Toleration => ({
    key: 'sick',
    operator: 'Exists',
    ...(seconds !== undefined && { tolerationSeconds: seconds }),
  });

  it('evicts pods without a toleration at once, those with a limited one later, and no others', async () => {
    const life = await runControllers([taintEviction], {
      seed: (api) => {
        api.seed(nodes, node('n1'), node('n2'));
        api.seed(
          pods,
          pod('no'),
          pod('for-60', [bears(60)]),
          pod('for-ever', [bears()]),
          pod('zero', [bears(0)]),
          pod('elsewhere', [], 'n2'),
        );
      },
    });
    const { api, clock } = life;
    await setTaints(api, [taint]);
    await clock.settle();
    expect(deleted(api)).toEqual(['no', 'zero']);
    expect(api.object(pods, at('no'))?.status?.conditions).toMatchObject([
      {
        type: 'DisruptionTarget',
        observedGeneration: 1,
        status: 'True',
        reason: 'DeletionByTaintManager',
        message: 'Taint manager: deleting due to NoExecute taint',
      },
    ]);
    expect(life.messages('TaintManagerEviction')).toContain('Marking for deletion Pod d/no');
    await clock.advance(59_000);
    expect(deleted(api)).toEqual(['no', 'zero']);
    await clock.advance(1_000);
    expect(deleted(api)).toEqual(['for-60', 'no', 'zero']);
  });

  it('reports the end of a planned eviction when the pod is deleted, or evicted at once by another taint', async () => {
    const life = await runControllers([taintEviction], {
      seed: (api) => {
        api.seed(nodes, node('n1'));
        api.seed(pods, pod('deleted', [bears(60)]), pod('evicted', [bears(60)]));
      },
    });
    const { api, clock } = life;
    await setTaints(api, [taint]);
    await clock.settle();
    await api.client().delete(pods, at('deleted'), { gracePeriodSeconds: 0 });
    await clock.settle();
    expect(life.messages('TaintManagerEviction')).toEqual(['Cancelling deletion of Pod d/deleted']);
    await setTaints(api, [taint, { key: 'other', effect: 'NoExecute' }]);
    await clock.settle();
    expect(life.messages('TaintManagerEviction').slice(1)).toEqual([
      'Cancelling deletion of Pod d/evicted',
      'Marking for deletion Pod d/evicted',
    ]);
  });

  it('evicts a pod once, although the cache still contains it when the API server has deleted it', async () => {
    const life = await runControllers([taintEviction], {
      seed: (api) => {
        api.seed(nodes, node('n1'));
        api.seed(pods, pod('evicted', [bears(60)]));
      },
    });
    const { api, clock } = life;
    await setTaints(api, [taint]);
    await clock.settle();
    api.failNext({ verb: 'delete', resource: pods }, failure('NotFound', 'pods "evicted" not found'));
    await setTaints(api, [taint, { key: 'other', effect: 'NoExecute' }]);
    await clock.settle();
    const once = ['Cancelling deletion of Pod d/evicted', 'Marking for deletion Pod d/evicted'];
    expect(life.messages('TaintManagerEviction')).toEqual(once);
    // another pod of this name
    api.remove(pods, at('evicted'));
    api.seed(pods, pod('evicted'));
    await clock.settle();
    expect(life.messages('TaintManagerEviction')).toEqual([...once, 'Marking for deletion Pod d/evicted']);
    expect(deleted(api)).toEqual(['evicted']);
  });

  it('removing taint cancels eviction', async () => {
    const life = await runControllers([taintEviction], {
      seed: (api) => {
        api.seed(nodes, node('n1'));
        api.seed(pods, pod('for-60', [bears(60)]));
      },
    });
    const { api, clock } = life;
    await setTaints(api, [taint]);
    await clock.advance(30_000);
    await setTaints(api, []);
    await clock.advance(100_000);
    expect(deleted(api)).toEqual([]);
    expect(life.messages('TaintManagerEviction')).toEqual(['Cancelling deletion of Pod d/for-60']);
    await setTaints(api, [taint]);
    await clock.advance(59_000);
    expect(deleted(api)).toEqual([]);
    // the toleration time starts when the pod is bound to a tainted node
    api.seed(pods, pod('late', [bears(10)]));
    await clock.advance(10_000);
    expect(deleted(api)).toEqual(['for-60', 'late']);
  });
});

controllerPluginContract(taintEviction, [
  {
    title: 'two pods are evicted from a tainted node',
    simulateOthers: (api) => {
      const gone = api.objects(pods, 'd').filter(({ metadata }) => metadata?.deletionTimestamp !== undefined);
      for (const { metadata } of gone) api.remove(pods, at(metadata?.name ?? ''));
      return gone.length > 0;
    },
    steps: [
      (api) => {
        api.seed(nodes, node('n1'));
        api.seed(
          pods,
          pod('now'),
          pod('soon', [{ key: 'sick', operator: 'Exists', tolerationSeconds: 5 }]),
          pod('stays', [{ operator: 'Exists' }]),
        );
      },
      async (api) => {
        await setTaints(api, [taint]);
      },
    ],
    expectResult: (api) => expect(named(api.objects(pods, 'd'))).toEqual(['stays']),
  },
]);

describe('NodeLifecycleController', () => {
  const names = (zone: string, count: number) => Array.from({ length: count }, (_, index) => `${zone}${index}`);
  const seed = (zones: Readonly<Record<string, number>>) => (api: MemoryApi) => {
    for (const [zone, count] of Object.entries(zones)) api.seed(nodes, ...names(zone, count).map((name) => node(name, zone)));
  };
  const report = async ({ api }: RunningControllers, some: readonly string[], status: string) => {
    for (const name of some) {
      const conditions: NodeCondition[] = [{ type: 'Ready', status, lastHeartbeatTime: `${name} ${status}` }];
      await api.client().patch(nodes, { name }, 'merge', { status: { conditions } }, { subresource: 'status' });
    }
  };
  const pushed = (api: MemoryApi) => api.objects(nodes).filter(({ spec }) => spec?.taints?.some(({ effect }) => effect === 'NoExecute'));
  const closed = (api: MemoryApi) => api.objects(nodes).filter(({ spec }) => spec?.taints?.some(({ effect }) => effect === 'NoSchedule'));
  const quick = { defaults: false, options: { config: { gracePeriodSeconds: 100_000 } } };

  it('keeps taints of its keys with other effects, and the order of taints', async () => {
    const life = await runControllers([nodeLifecycle], { ...quick, seed: seed({ a: 1, b: 1 }) });
    const { api, clock } = life;
    const own: Taint = { key: 'node.kubernetes.io/memory-pressure', effect: 'NoExecute' };
    const unschedulable: Taint = { key: 'node.kubernetes.io/unschedulable', effect: 'NoSchedule' };
    await api.client().patch(nodes, { name: 'a0' }, 'merge', { spec: { unschedulable: true, taints: [unschedulable, own] } });
    await report(life, ['a0'], 'False');
    await clock.settle();
    expect(api.object(nodes, { name: 'a0' })?.spec?.taints).toMatchObject([
      unschedulable,
      own,
      { key: 'node.kubernetes.io/not-ready', effect: 'NoSchedule' },
      { key: 'node.kubernetes.io/not-ready', effect: 'NoExecute' },
    ]);
  });

  it('waits 60 seconds for the first status of a node, which has no taint until then', async () => {
    const notReady: Taint = { key: 'node.kubernetes.io/not-ready', effect: 'NoSchedule' };
    const life = await runControllers([nodeLifecycle], {
      defaults: false,
      seed: (api) => {
        api.seed(nodes, { ...node('n1'), spec: { taints: [notReady] }, status: {} });
      },
    });
    const { api, clock } = life;
    expect(api.object(nodes, { name: 'n1' })?.spec?.taints).toEqual([]);
    await clock.advance(59_000);
    expect(api.object(nodes, { name: 'n1' })?.status?.conditions).toBeUndefined();
    await clock.advance(2_000);
    expect(api.object(nodes, { name: 'n1' })?.status?.conditions?.map(({ reason }) => reason)).toContain('NodeStatusNeverUpdated');
    expect(api.object(nodes, { name: 'n1' })?.spec?.taints?.[0]?.key).toBe('node.kubernetes.io/unreachable');
  });

  it('keeps the order of conditions and the reason of an unknown one', async () => {
    const old: NodeCondition = { type: 'DiskPressure', status: 'Unknown', reason: 'Old', message: 'm' };
    const life = await runControllers([nodeLifecycle], {
      defaults: false,
      seed: (api) => {
        const conditions = [old, ...(node('n1').status?.conditions ?? []), { type: 'Custom', status: 'True' }];
        api.seed(nodes, { ...node('n1'), status: { conditions } });
      },
    });
    await life.clock.advance(51_000);
    expect(life.api.object(nodes, { name: 'n1' })?.status?.conditions).toMatchObject([
      old,
      { type: 'Ready', status: 'Unknown', reason: 'NodeStatusUnknown' },
      { type: 'Custom', status: 'True' },
      { type: 'MemoryPressure', status: 'Unknown' },
      { type: 'PIDPressure', status: 'Unknown' },
    ]);
  });

  it('taints unreachable nodes at once and evicts one node per ten seconds in each zone', async () => {
    const life = await runControllers([nodeLifecycle], { ...quick, seed: seed({ a: 10, b: 10 }) });
    const { api, clock } = life;
    await report(life, [...names('a', 3), ...names('b', 1)], 'False');
    await clock.settle();
    expect(closed(api)).toHaveLength(4);
    expect(pushed(api)).toHaveLength(2);
    await clock.advance(9_900);
    expect(pushed(api)).toHaveLength(2);
    await clock.advance(200);
    expect(pushed(api)).toHaveLength(3);
    await clock.advance(10_000);
    expect(pushed(api)).toHaveLength(4);
    await report(life, names('a', 3), 'True');
    await clock.settle();
    expect(pushed(api)).toHaveLength(1);
    expect(closed(api)).toHaveLength(1);
  });

  it('sets timeAdded of all its taints, and keeps it while the taints remain', async () => {
    const life = await runControllers([nodeLifecycle], { ...quick, seed: seed({ a: 3 }) });
    const { api, clock } = life;
    const taintsOf = () => api.object(nodes, { name: 'a0' })?.spec?.taints ?? [];
    await report(life, names('a', 1), 'False');
    await clock.settle();
    const timeAdded = formatTime(clock.now());
    const notReady = ['NoSchedule', 'NoExecute'].map((effect) => ({ key: 'node.kubernetes.io/not-ready', effect, timeAdded }));
    expect(taintsOf()).toEqual(notReady);
    await clock.advance(30_000);
    await api.client().patch(nodes, { name: 'a0' }, 'merge', { spec: { unschedulable: true } });
    await clock.settle();
    const unschedulable = { key: 'node.kubernetes.io/unschedulable', effect: 'NoSchedule', timeAdded: formatTime(clock.now()) };
    expect(taintsOf()).toEqual([...notReady, unschedulable]);
  });

  it('stops in a small disrupted zone, is slow in a large one, and continues in others', async () => {
    const life = await runControllers([nodeLifecycle], { ...quick, seed: seed({ a: 10, b: 60, c: 10 }) });
    const { api, clock } = life;
    await report(life, [...names('a', 7), ...names('b', 40), ...names('c', 2)], 'Unknown');
    await clock.settle();
    const ofZone = (zone: string) => pushed(api).filter(({ metadata }) => metadata?.name?.startsWith(zone)).length;
    const before = ofZone('a');
    await clock.advance(95_000);
    expect(ofZone('a')).toBe(before);
    expect(ofZone('b')).toBeLessThanOrEqual(2);
    expect(ofZone('c')).toBe(2);
    await clock.advance(100_000);
    expect(ofZone('b')).toBeLessThanOrEqual(3);
  });

  it('evicts nothing in a full disruption and removes NoExecute taints', async () => {
    const life = await runControllers([nodeLifecycle], { ...quick, seed: seed({ a: 3, b: 3 }) });
    const { api, clock } = life;
    await report(life, names('a', 3), 'Unknown');
    await clock.advance(15_000);
    expect(pushed(api).length).toBeGreaterThan(0);
    await report(life, names('b', 3), 'Unknown');
    await clock.advance(100_000);
    expect(pushed(api)).toEqual([]);
    expect(closed(api)).toHaveLength(6);
    await report(life, names('b', 3), 'True');
    await clock.advance(25_000);
    expect(pushed(api)).toHaveLength(3);
  });

  it('keeps its rate with 500 of 5,000 unreachable nodes and removes taints when they recover', async () => {
    const life = await runControllers([nodeLifecycle], { ...quick, seed: seed({ a: 5_000 }) });
    const { api, clock } = life;
    // with this many keys the workers yield to the event loop, which the fake clock does not wait for
    const until = async (holds: () => boolean) => {
      for (let turn = 0; turn < 10_000 && !holds(); turn++) await clock.settle();
      expect(holds()).toBe(true);
    };
    await report(life, names('a', 500), 'Unknown');
    await until(() => closed(api).length === 500);
    expect(pushed(api)).toHaveLength(1);
    await clock.advance(100_000);
    expect(pushed(api).length).toBeGreaterThan(5);
    expect(pushed(api).length).toBeLessThanOrEqual(11);
    await report(life, names('a', 500), 'True');
    await until(() => closed(api).length + pushed(api).length === 0);
  });

  it('waits for the grace period of a node without heartbeats', async () => {
    const lease = (name: string) => ({
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: { namespace: 'kube-node-lease', name },
      spec: { holderIdentity: name },
    });
    const life = await runControllers([nodeLifecycle], {
      defaults: false,
      seed: (api) => {
        api.seed(nodes, node('n1'), node('n2'));
        api.seed(leases, lease('n1'), lease('n2'));
      },
    });
    const { api, clock } = life;
    for (let round = 0; round < 6; round++) {
      await clock.advance(10_000);
      await api.client().patch(leases, { namespace: 'kube-node-lease', name: 'n2' }, 'merge', { spec: { renewTime: String(round) } });
    }
    expect(named(pushed(api))).toEqual(['n1']);
    expect(life.messages('NodeNotReady')).toContain('Node n1 status is now: NodeNotReady');
  });

  it('records no NodeNotReady event for a node that was never ready', async () => {
    const life = await runControllers([nodeLifecycle], {
      defaults: false,
      seed: (api) => void api.seed(nodes, { apiVersion: 'v1', kind: 'Node', metadata: { name: 'new' }, status: {} }),
    });
    await life.clock.advance(120_000);
    const ready = life.api.object(nodes, { name: 'new' })?.status?.conditions?.find(({ type }) => type === 'Ready');
    expect(ready).toMatchObject({ status: 'Unknown', reason: 'NodeStatusNeverUpdated' });
    expect(life.reasons()).not.toContain('NodeNotReady');
  });
});
