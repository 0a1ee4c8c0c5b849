import { describe, expect, it } from 'vitest';
import { container, isTrue, labels, named, ready, selector, template, type Plural, type Space, type Workbench } from './workbench.ts';

const replicaSet = (replicas: number) => ({ spec: { replicas, selector, template: template() } });
const controller = (replicas: number) => ({ spec: { replicas, selector: labels, template: template() } });
const orphan = { spec: { containers: [container()] } };

/** An existing pod is adopted, and released when it no longer matches. */
async function adopts(space: Space, plural: Plural, owner: string, body: object): Promise<void> {
  await space.create('pods', 'orphan', orphan, { labels });
  // as upstream's test: a controller that does not know the pod yet would create one, and then may delete either
  await space.until('pods', 'the orphan ready', (pods) => pods.some((pod) => named('orphan')(pod) && ready(pod)));
  await space.create(plural, owner, body);
  await space.until('pods', 'the orphan adopted', (pods) => pods.find(named('orphan'))?.metadata.ownerReferences?.[0]?.name === owner);
}
async function releases(space: Space, pod: string): Promise<void> {
  await space.patch('pods', pod, { metadata: { labels: { app: 'other' } } });
  await space.until(
    'pods',
    'one pod released and one created',
    (pods) => pods.length === 2 && (pods.find(named(pod))?.metadata.ownerReferences ?? []).length === 0,
  );
}

export function replicas(bench: Workbench): void {
  describe.concurrent('[sig-apps] ReplicaSet', () => {
    it('Replicaset should have a working scale subresource', async () => {
      const space = await bench.space();
      await space.create('replicasets', 'rs', replicaSet(1));
      await space.untilReady(1);
      await space.scales('replicasets', 'rs', 1);
    });

    it('Replace and Patch tests', async () => {
      const space = await bench.space();
      await space.create('replicasets', 'rs', replicaSet(1));
      await space.untilReady(1);
      await space.update('replicasets', 'rs', ({ spec }) => ({ spec: { ...spec, replicas: 2 } }));
      await space.untilHas('replicasets', 'rs', { status: { replicas: 2, availableReplicas: 2 } });
      await space.patch(
        'replicasets',
        'rs',
        {
          metadata: { labels: { 'test-rs': 'patched' } },
          spec: { replicas: 3, template: { spec: { terminationGracePeriodSeconds: 0, containers: [container('web:2')] } } },
        },
        { type: 'strategic' },
      );
      const set = await space.untilHas('replicasets', 'rs', {
        metadata: { labels: { 'test-rs': 'patched' } },
        status: { availableReplicas: 3 },
      });
      expect(set.spec).toMatchObject({
        replicas: 3,
        template: { spec: { terminationGracePeriodSeconds: 0, containers: [{ image: 'web:2' }] } },
      });
    });

    it('should adopt matching pods on creation and release no longer matching pods', async () => {
      const space = await bench.space();
      await adopts(space, 'replicasets', 'rs', replicaSet(1));
      await releases(space, 'orphan');
    });

    it('should list and delete a collection of ReplicaSets', async () => {
      const space = await bench.space();
      await space.create('replicasets', 'rs', replicaSet(2), { labels: { e2e: space.name } });
      await space.untilReady(2);
      expect((await space.everywhere('replicasets', `e2e=${space.name}`)).items).toHaveLength(1);
      await space.removeAll('replicasets', `e2e=${space.name}`);
      await space.untilNone('replicasets');
    });

    it('should serve a basic image on each replica with a public image', async () => {
      const space = await bench.space();
      await space.create('replicasets', 'rs', replicaSet(3));
      const pods = await space.untilReady(3);
      expect(new Set(pods.map(({ status }) => status?.['podIP'])).size).toBe(3);
    });

    it('should validate Replicaset Status endpoints', async () => {
      const space = await bench.space();
      await space.create('replicasets', 'rs', replicaSet(1));
      await space.untilHas('replicasets', 'rs', { status: { availableReplicas: 1 } });
      await space.hasStatus('replicasets', 'rs');
    });
  });

  describe.concurrent('[sig-apps] ReplicationController', () => {
    it('should adopt matching pods on creation', async () => {
      const space = await bench.space();
      await adopts(space, 'replicationcontrollers', 'rc', controller(1));
    });

    it('should release no longer matching pods', async () => {
      const space = await bench.space();
      await space.create('replicationcontrollers', 'rc', controller(1));
      const [pod] = await space.untilReady(1);
      await releases(space, pod?.metadata.name ?? '');
    });

    it('should get and update a ReplicationController scale', async () => {
      const space = await bench.space();
      await space.create('replicationcontrollers', 'rc', controller(1));
      await space.untilHas('replicationcontrollers', 'rc', { status: { replicas: 1 } });
      const scale = await space.get('replicationcontrollers', 'rc', 'scale');
      expect(scale).toMatchObject({ spec: { replicas: 1 }, status: { replicas: 1 } });
      await space.update('replicationcontrollers', 'rc', () => ({ spec: { replicas: 2 } }), 'scale');
      await space.untilHas('replicationcontrollers', 'rc', { spec: { replicas: 2 }, status: { replicas: 2 } });
    });

    it('should serve a basic image on each replica with a public image', async () => {
      const space = await bench.space();
      await space.create('replicationcontrollers', 'rc', controller(3));
      const pods = await space.untilReady(3);
      expect(new Set(pods.map(({ status }) => status?.['podIP'])).size).toBe(3);
    });

    it('should surface a failure condition on a common issue like exceeded quota', async () => {
      const space = await bench.space();
      await space.create('resourcequotas', 'q', { spec: { hard: { pods: '2' } } });
      await space.untilHas('resourcequotas', 'q', { status: { hard: { pods: '2' } } });
      await space.create('replicationcontrollers', 'rc', controller(3));
      await space.until('replicationcontrollers', 'a reported failure', (all) => all.some((each) => isTrue(each, 'ReplicaFailure')));
      await space.patch('replicationcontrollers', 'rc', { spec: { replicas: 2 } });
      await space.until('replicationcontrollers', 'no failure any more', (all) => all.every((each) => !isTrue(each, 'ReplicaFailure')));
    });

    it('should test the lifecycle of a ReplicationController', async () => {
      const space = await bench.space();
      await space.watching(
        'replicationcontrollers',
        () => space.create('replicationcontrollers', 'rc', controller(1), { labels }),
        (type) => type === 'ADDED',
      );
      await space.untilHas('replicationcontrollers', 'rc', { status: { readyReplicas: 1 } });
      await space.patch('replicationcontrollers', 'rc', { metadata: { labels: { patched: 'yes' } } });
      await space.patch('replicationcontrollers', 'rc', { status: { readyReplicas: 0, availableReplicas: 0 } }, { subresource: 'status' });
      expect((await space.get('replicationcontrollers', 'rc', 'status')).kind).toBe('ReplicationController');
      await space.patch('replicationcontrollers', 'rc', { spec: { replicas: 2 } }, { subresource: 'scale' });
      await space.untilHas('replicationcontrollers', 'rc', { status: { readyReplicas: 2 } });
      expect(
        (await space.everywhere('replicationcontrollers', 'patched=yes')).items.some(({ metadata }) => metadata.namespace === space.name),
      ).toBe(true);
      await space.update('replicationcontrollers', 'rc', ({ spec }) => ({ spec: { ...spec, replicas: 1 } }));
      await space.until('pods', 'one pod', (pods) => pods.filter(ready).length === 1);
      await space.watching(
        'replicationcontrollers',
        () => space.removeAll('replicationcontrollers', 'patched=yes'),
        (type) => type === 'DELETED',
      );
      await space.untilNone('replicationcontrollers');
    });
  });
}
