import { controllerRevisions, daemonSets, nodes, pods } from '@oarlock/api/resources';
import type { DaemonSet, DaemonSetSpec } from '@oarlock/api/types/apps-v1';
import type { Node, Pod } from '@oarlock/api/types/core-v1';
import daemonSet from '@oarlock/controllers/apps/daemon-set/daemon-set-controller';
import { targetNode } from '@oarlock/controllers/apps/daemon-set/placement';
import { controllerPluginContract } from '@oarlock/testing/controller-contract';
import { setPodTerminated, isLive, isPodReady, setPodReady, setPodStatus, simulateKubelet } from '@oarlock/testing/simulated-pods';
import type { MemoryApi } from '@oarlock/testing/memory-api';
import { describe, expect, it } from 'vitest';
import { at, runControllers } from '../../support/running-controllers.ts';

const template = (image: string) => ({ metadata: { labels: { app: 'agent' } }, spec: { containers: [{ name: 'c', image }] } });
const set = (more: Partial<DaemonSetSpec> = {}): DaemonSet => ({
  apiVersion: 'apps/v1',
  kind: 'DaemonSet',
  metadata: { namespace: 'd', name: 'agent' },
  spec: { selector: { matchLabels: { app: 'agent' } }, template: template('a:1'), ...more },
});
const node = (name: string, more: Partial<Node> = {}): Node => ({ apiVersion: 'v1', kind: 'Node', metadata: { name }, spec: {}, ...more });
const three = (api: MemoryApi) => {
  api.seed(nodes, node('n1'), node('n2'), node('n3'));
};
const alive = (api: MemoryApi) => api.objects(pods, 'd').filter(isLive);
const where = (api: MemoryApi) => alive(api).map(targetNode).sort();
const status = (api: MemoryApi) => api.object(daemonSets, at('agent'))?.status;
const images = (some: readonly Pod[]) => some.map(({ spec }) => spec?.containers[0]?.image).sort();
const patch = (api: MemoryApi, spec: unknown) => api.client().patch(daemonSets, at('agent'), 'merge', { spec });

describe('DaemonSetController', () => {
  it('should run and stop simple daemon', async () => {
    const life = await runControllers([daemonSet], { seed: three });
    const { api } = life;
    await api.client().create(daemonSets, set());
    await life.whenIdle();
    expect(where(api)).toEqual(['n1', 'n2', 'n3']);
    const [pod] = alive(api);
    expect(pod?.spec?.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms).toEqual([
      { matchFields: [{ key: 'metadata.name', operator: 'In', values: [pod && targetNode(pod)] }] },
    ]);
    expect(pod?.spec?.tolerations).toContainEqual({ key: 'node.kubernetes.io/not-ready', operator: 'Exists', effect: 'NoExecute' });
    expect(status(api)).toMatchObject({
      desiredNumberScheduled: 3,
      currentNumberScheduled: 3,
      numberReady: 3,
      numberAvailable: 3,
      updatedNumberScheduled: 3,
      numberMisscheduled: 0,
      observedGeneration: 1,
    });
    await api.client().delete(pods, at(pod?.metadata?.name ?? ''));
    await life.whenIdle();
    expect(where(api)).toEqual(['n1', 'n2', 'n3']);
    await api.client().create(nodes, node('n4'));
    await life.whenIdle();
    expect(where(api)).toEqual(['n1', 'n2', 'n3', 'n4']);
  });

  it('should run and stop complex daemon', async () => {
    const life = await runControllers([daemonSet], { seed: three });
    const { api } = life;
    const selecting = { ...template('a:1'), spec: { ...template('a:1').spec, nodeSelector: { color: 'blue' } } };
    await api.client().create(daemonSets, set({ template: selecting }));
    await life.whenIdle();
    expect(where(api)).toEqual([]);
    const paint = (color: string) => api.client().patch(nodes, { name: 'n2' }, 'merge', { metadata: { labels: { color } } });
    await paint('blue');
    await life.whenIdle();
    expect(where(api)).toEqual(['n2']);
    await paint('green');
    await life.whenIdle();
    expect(where(api)).toEqual([]);
    await patch(api, { template: { spec: { nodeSelector: { color: 'green' } } }, updateStrategy: { type: 'RollingUpdate' } });
    await life.whenIdle();
    expect(where(api)).toEqual(['n2']);
  });

  it('keeps new pods off tainted nodes and deletes running ones only for NoExecute', async () => {
    const life = await runControllers([daemonSet], { seed: three });
    const { api } = life;
    await api.client().create(daemonSets, set());
    await life.whenIdle();
    const taint = (effect: string, key = 'x') =>
      api.client().patch(nodes, { name: 'n1' }, 'merge', { spec: { taints: [{ key, effect }] } });
    await taint('NoSchedule');
    await life.whenIdle();
    expect(where(api)).toEqual(['n1', 'n2', 'n3']);
    expect(status(api)).toMatchObject({ desiredNumberScheduled: 2, numberMisscheduled: 1 });
    await taint('NoExecute', 'node.kubernetes.io/unreachable');
    await life.whenIdle();
    expect(where(api)).toEqual(['n1', 'n2', 'n3']);
    await taint('NoExecute');
    await life.whenIdle();
    expect(where(api)).toEqual(['n2', 'n3']);
  });

  it('should retry creating failed daemon pods', async () => {
    const life = await runControllers([daemonSet], { seed: three });
    const { api, clock } = life;
    await api.client().create(daemonSets, set());
    await life.whenIdle();
    const fail = async () => {
      const pod = alive(api).find((each) => targetNode(each) === 'n1');
      if (pod) await setPodTerminated(api, { pod, exitCode: 1, at: clock.now() });
      await life.whenIdle();
    };
    await fail();
    expect(where(api)).toEqual(['n1', 'n2', 'n3']);
    expect(life.reasons()).toContain('FailedDaemonPod');
    // the second failure waits for the backoff
    await fail();
    expect(where(api)).toEqual(['n2', 'n3']);
    await clock.advance(1_000);
    await life.whenIdle();
    expect(where(api)).toEqual(['n1', 'n2', 'n3']);
  });

  it('should update pod when spec was updated and update strategy is RollingUpdate', async () => {
    const life = await runControllers([daemonSet], { seed: three });
    const { api, clock } = life;
    await api.client().create(daemonSets, set());
    await life.whenIdle();
    await patch(api, { template: template('a:2') });
    for (let round = 0; round < 12; round++) {
      await clock.settle();
      expect(alive(api).filter(isPodReady).length).toBeGreaterThanOrEqual(2);
      for (const pod of api.objects(pods, 'd')) {
        if (pod.metadata?.deletionTimestamp !== undefined) api.remove(pods, at(pod.metadata.name ?? ''));
        else if (!isPodReady(pod)) await setPodReady(api, pod, clock.now());
        else continue;
        break;
      }
    }
    await life.whenIdle();
    expect(images(alive(api))).toEqual(['a:2', 'a:2', 'a:2']);
    expect(status(api)).toMatchObject({ updatedNumberScheduled: 3, numberAvailable: 3 });
    expect(
      api
        .objects(controllerRevisions, 'd')
        .map(({ revision }) => revision)
        .sort(),
    ).toEqual([1, 2]);
    for (const { metadata } of api.objects(controllerRevisions, 'd')) {
      expect(metadata?.labels).not.toHaveProperty('controller.kubernetes.io/hash');
      expect(metadata?.name).toBe(`agent-${metadata?.labels?.['controller-revision-hash']}`);
    }
  });

  it('should rollback without unnecessary restarts', async () => {
    const life = await runControllers([daemonSet], { seed: three });
    const { api, clock } = life;
    await api.client().create(daemonSets, set());
    await life.whenIdle();
    const before = new Map(alive(api).map((pod) => [targetNode(pod), pod.metadata?.uid]));
    await patch(api, { template: template('broken:1') });
    await clock.settle();
    for (const pod of api.objects(pods, 'd'))
      if (pod.metadata?.deletionTimestamp !== undefined) api.remove(pods, at(pod.metadata.name ?? ''));
    await clock.settle();
    const changed = alive(api)
      .filter((pod) => pod.spec?.containers[0]?.image === 'broken:1')
      .map(targetNode);
    expect(changed).toHaveLength(1);
    await patch(api, { template: template('a:1') });
    await life.whenIdle();
    expect(images(alive(api))).toEqual(['a:1', 'a:1', 'a:1']);
    for (const pod of alive(api)) if (!changed.includes(targetNode(pod))) expect(pod.metadata?.uid).toBe(before.get(targetNode(pod)));
  });

  it('with maxSurge deletes the old pod when the new one is available', async () => {
    const life = await runControllers([daemonSet], { seed: three });
    const { api, clock } = life;
    const updateStrategy = { type: 'RollingUpdate', rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } };
    await api.client().create(daemonSets, set({ updateStrategy }));
    await life.whenIdle();
    await patch(api, { template: template('a:2') });
    await clock.settle();
    expect(images(alive(api))).toEqual(['a:1', 'a:1', 'a:1', 'a:2']);
    await life.whenIdle();
    expect(images(alive(api))).toEqual(['a:2', 'a:2', 'a:2']);
  });

  it('with maxSurge replaces a pod that is being deleted at once', async () => {
    const life = await runControllers([daemonSet], { seed: three });
    const { api, clock } = life;
    const updateStrategy = { type: 'RollingUpdate', rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } };
    await api.client().create(daemonSets, set({ updateStrategy }));
    await life.whenIdle();
    const pod = alive(api).find((each) => targetNode(each) === 'n1') as Pod;
    await api.client().patch(pods, at(pod.metadata?.name ?? ''), 'merge', { metadata: { finalizers: ['test/hold'] } });
    await api.client().delete(pods, at(pod.metadata?.name ?? ''));
    await clock.settle();
    expect(where(api)).toEqual(['n1', 'n2', 'n3']);
  });

  it('replaces tolerations of the template in their place', async () => {
    const life = await runControllers([daemonSet], { seed: three });
    const { api, clock } = life;
    const own = [
      { key: 'node.kubernetes.io/not-ready', operator: 'Exists', effect: 'NoExecute', tolerationSeconds: 5 },
      { key: 'own', operator: 'Exists' },
    ];
    await api.client().create(daemonSets, set({ template: { ...template('a:1'), spec: { ...template('a:1').spec, tolerations: own } } }));
    await clock.settle();
    expect(alive(api)[0]?.spec?.tolerations?.slice(0, 2)).toEqual([
      { key: 'node.kubernetes.io/not-ready', operator: 'Exists', effect: 'NoExecute' },
      { key: 'own', operator: 'Exists' },
    ]);
  });

  it('counts unavailable old pods against maxUnavailable', async () => {
    const life = await runControllers([daemonSet], { seed: three });
    const { api, clock } = life;
    await api.client().create(daemonSets, set());
    await life.whenIdle();
    const broken = alive(api).find((pod) => targetNode(pod) === 'n3') as Pod;
    await setPodStatus(api, broken, { conditions: [{ type: 'Ready', status: 'False' }] });
    await patch(api, { template: template('a:2') });
    await clock.settle();
    expect(api.object(pods, at(broken.metadata?.name ?? ''))).toBeUndefined();
    expect(images(alive(api).filter(isPodReady))).toEqual(['a:1', 'a:1']);
  });

  it('with maxSurge creates no pod on a node that needs none any more, and leaves it when enough pods are available', async () => {
    const life = await runControllers([daemonSet], { seed: three });
    const { api, clock } = life;
    const updateStrategy = { type: 'RollingUpdate', rollingUpdate: { maxSurge: 3, maxUnavailable: 0 } };
    await api.client().create(daemonSets, set({ updateStrategy }));
    await life.whenIdle();
    await api.client().patch(nodes, { name: 'n1' }, 'merge', { spec: { taints: [{ key: 'x', effect: 'NoSchedule' }] } });
    await life.whenIdle();
    await patch(api, { template: template('a:2') });
    await clock.settle();
    // 3 pods are available and 2 are desired
    expect(where(api)).toEqual(['n2', 'n2', 'n3', 'n3']);
    await life.whenIdle();
    expect(where(api)).toEqual(['n2', 'n3']);
    expect(images(alive(api))).toEqual(['a:2', 'a:2']);
  });

  it('replaces a deleted pod that has terminated, although a finalizer keeps it', async () => {
    const life = await runControllers([daemonSet], { seed: three });
    const { api, clock } = life;
    await api.client().create(daemonSets, set());
    await life.whenIdle();
    const pod = alive(api).find((each) => targetNode(each) === 'n1') as Pod;
    await api.client().patch(pods, at(pod.metadata?.name ?? ''), 'merge', { metadata: { finalizers: ['test/hold'] } });
    await api.client().delete(pods, at(pod.metadata?.name ?? ''));
    await clock.settle();
    expect(where(api)).toEqual(['n2', 'n3']);
    await setPodStatus(api, pod, { phase: 'Succeeded' });
    await life.whenIdle();
    expect(where(api)).toEqual(['n1', 'n2', 'n3']);
    expect(api.object(pods, at(pod.metadata?.name ?? ''))).toBeDefined();
  });

  it('keeps observedGeneration while it waits for its own creations', async () => {
    const life = await runControllers([daemonSet], { seed: three });
    const { api, clock } = life;
    api.dropWatches(pods);
    await api.client().create(daemonSets, set());
    await clock.settle();
    await patch(api, { template: template('a:2') });
    await clock.settle();
    expect(api.object(daemonSets, at('agent'))).toMatchObject({ metadata: { generation: 2 }, status: { observedGeneration: 1 } });
  });

  it('with OnDelete replaces a pod only after it is deleted', async () => {
    const life = await runControllers([daemonSet], { seed: three });
    const { api } = life;
    await api.client().create(daemonSets, set({ updateStrategy: { type: 'OnDelete' } }));
    await life.whenIdle();
    await patch(api, { template: template('a:2') });
    await life.whenIdle();
    expect(images(alive(api))).toEqual(['a:1', 'a:1', 'a:1']);
    await api.client().delete(pods, at(alive(api)[0]?.metadata?.name ?? ''));
    await life.whenIdle();
    expect(images(alive(api))).toEqual(['a:1', 'a:1', 'a:2']);
  });

  it('does not delete a failed pod again in the rolling update of the same sync', async () => {
    const life = await runControllers([daemonSet], { seed: three });
    const { api, clock } = life;
    await api.client().create(daemonSets, set());
    await life.whenIdle();
    const [pod] = alive(api) as [Pod];
    api.requests.length = 0;
    await Promise.all([patch(api, { template: template('a:2') }), setPodTerminated(api, { pod, exitCode: 1, at: clock.now() })]);
    await life.whenIdle();
    const deletions = api.requests.filter(({ verb, name }) => verb === 'delete' && name === pod.metadata?.name);
    expect(deletions).toHaveLength(1);
    expect(images(alive(api))).toEqual(['a:2', 'a:2', 'a:2']);
  });

  it('creates no pod twice while its cache is stale', async () => {
    const life = await runControllers([daemonSet], { seed: three });
    const { api, clock } = life;
    api.dropWatches(pods);
    await api.client().create(daemonSets, set());
    await clock.settle();
    await api.client().patch(daemonSets, at('agent'), 'merge', { metadata: { annotations: { poke: '1' } } });
    await clock.settle();
    expect(alive(api)).toHaveLength(3);
  });
});

controllerPluginContract(
  daemonSet,
  [
    {
      title: 'runs pods on two nodes, updates them, and adds one for a new node',
      simulateOthers: simulateKubelet(),
      steps: [
        async (api) => {
          api.seed(nodes, node('n1'), node('n2'));
          await api.client().create(daemonSets, set());
        },
        async (api) => {
          await patch(api, { template: template('a:2') });
        },
        (api) => {
          api.seed(nodes, node('n3'));
        },
      ],
      expectResult: (api) => {
        expect(where(api)).toEqual(['n1', 'n2', 'n3']);
        expect(images(alive(api))).toEqual(['a:2', 'a:2', 'a:2']);
        expect(status(api)).toMatchObject({ desiredNumberScheduled: 3, numberReady: 3, updatedNumberScheduled: 3, numberUnavailable: 0 });
      },
    },
  ],
  { defaults: true },
);
