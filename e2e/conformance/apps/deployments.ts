import { describe, expect, it } from 'vitest';
import { container, has, imageOf, labels, named, newImage, ready, selector, template, type Thing, type Workbench } from './workbench.ts';

const deployment = (replicas: number, more: object = {}) => ({ spec: { replicas, selector, template: template(), ...more } });
const rolledOut = (replicas: number) => ({ status: { replicas, updatedReplicas: replicas, availableReplicas: replicas } });
const replicasOf = ({ spec }: Thing) => Number(spec?.['replicas'] ?? 0);

export function deployments(bench: Workbench): void {
  describe.concurrent('[sig-apps] Deployment', () => {
    it('Deployment should have a working scale subresource', async () => {
      const space = await bench.space();
      await space.create('deployments', 'd', deployment(1));
      await space.untilHas('deployments', 'd', { status: { availableReplicas: 1 } });
      await space.scales('deployments', 'd', 1);
    });

    it('RecreateDeployment should delete old pods and create new ones', async () => {
      const space = await bench.space();
      await space.create('deployments', 'd', deployment(2, { strategy: { type: 'Recreate' } }));
      await space.untilHas('deployments', 'd', rolledOut(2));
      await space.patch('deployments', 'd', newImage('web:2'), { type: 'strategic' });
      await space.until('pods', 'new pods, and never both', (pods) => {
        const images = new Set(pods.map(imageOf));
        expect(images.size, 'old pods and new ones at once').toBeLessThanOrEqual(1);
        return images.has('web:2') && pods.filter(ready).length === 2;
      });
    });

    it('RollingUpdateDeployment should delete old pods and create new ones', async () => {
      const space = await bench.space();
      // an existing ReplicaSet is adopted
      await space.create(
        'replicasets',
        'old',
        { spec: { replicas: 1, selector, template: template() } },
        { labels, annotations: { 'deployment.kubernetes.io/revision': '3546342826724305832' } },
      );
      await space.untilReady(1);
      await space.create('deployments', 'd', { spec: { replicas: 1, selector, template: template('web:2') } });
      await space.untilHas('deployments', 'd', rolledOut(1));
      const sets = await space.until(
        'replicasets',
        'an old set without replicas',
        (all) => all.length === 2 && all.find(named('old'))?.status?.['replicas'] === 0,
      );
      const [old, fresh] = [sets.find(named('old')), sets.find((set) => set.metadata.name !== 'old')];
      expect(old?.metadata.ownerReferences).toMatchObject([{ kind: 'Deployment', name: 'd' }]);
      expect(fresh?.metadata.annotations?.['deployment.kubernetes.io/revision']).toBe('3546342826724305833');
      expect(fresh?.metadata.labels?.['pod-template-hash']).toBeTruthy();
      const pods = await space.untilReady(1);
      expect(pods.filter(ready).map(imageOf)).toEqual(['web:2']);
    });

    it('deployment should delete old replica sets', async () => {
      const space = await bench.space();
      await space.create('replicasets', 'old', { spec: { replicas: 1, selector, template: template() } }, { labels });
      await space.untilReady(1);
      await space.create('deployments', 'd', { spec: { replicas: 1, revisionHistoryLimit: 0, selector, template: template('web:2') } });
      await space.until('replicasets', 'one set', (all) => all.length === 1 && all[0]?.metadata.name !== 'old');
    });

    it('deployment should support rollover', async () => {
      const space = await bench.space();
      await space.create('replicasets', 'old', { spec: { replicas: 1, selector, template: template() } }, { labels });
      await space.untilReady(1);
      const strategy = { type: 'RollingUpdate', rollingUpdate: { maxUnavailable: 0, maxSurge: 1 } };
      // its pods never become ready, so the rollout never completes
      await space.create('deployments', 'd', {
        spec: {
          replicas: 1,
          minReadySeconds: 1,
          strategy,
          selector,
          template: template('stuck:1', { containers: [container('stuck:1', { command: ['/no/such/file'] })] }),
        },
      });
      await space.until(
        'replicasets',
        'a set that is stuck',
        (all) => all.length === 2 && all.every((set) => Number(set.status?.['replicas']) === 1),
      );
      await space.patch(
        'deployments',
        'd',
        { spec: { template: { spec: { containers: [container('web:3', { command: null })] } } } },
        { type: 'strategic' },
      );
      await space.untilHas('deployments', 'd', rolledOut(1));
      await space.until(
        'replicasets',
        'replicas in the newest set only',
        (all) => all.length === 3 && all.filter((set) => replicasOf(set) > 0).length === 1,
      );
      expect((await space.untilReady(1)).filter(ready).map(imageOf)).toEqual(['web:3']);
    });

    it('deployment should support proportional scaling', async () => {
      const space = await bench.space();
      const strategy = { type: 'RollingUpdate', rollingUpdate: { maxSurge: 3, maxUnavailable: 2 } };
      await space.create('deployments', 'd', deployment(10, { strategy }));
      await space.untilHas('deployments', 'd', rolledOut(10));
      // pods that never become ready block the rollout: 8 of the old, 5 of the new
      await space.patch(
        'deployments',
        'd',
        { spec: { template: { spec: { containers: [container('stuck:1', { command: ['/no/such/file'] })] } } } },
        { type: 'strategic' },
      );
      const counts = (all: readonly Thing[]) =>
        all
          .map(replicasOf)
          .sort((a, b) => a - b)
          .join();
      await space.until(
        'replicasets',
        'a blocked rollout',
        (all) => counts(all) === '5,8' && all.every((set) => Number(set.status?.['replicas']) === replicasOf(set)),
      );
      await space.patch('deployments', 'd', { spec: { replicas: 30 } });
      await space.until('replicasets', 'both sets scaled in proportion', (all) => counts(all) === '13,20');
    });

    it('should run the lifecycle of a Deployment', async () => {
      const space = await bench.space();
      await space.watching(
        'deployments',
        () => space.create('deployments', 'd', deployment(2), { labels }),
        (type) => type === 'ADDED',
      );
      await space.untilHas('deployments', 'd', rolledOut(2));
      await space.watching(
        'deployments',
        () => space.patch('deployments', 'd', { ...newImage('web:2'), metadata: { labels: { patched: 'yes' } } }, { type: 'strategic' }),
        (type, thing) => type === 'MODIFIED' && thing.metadata.labels?.['patched'] === 'yes',
      );
      expect(
        (await space.everywhere('deployments', 'patched=yes')).items.filter(({ metadata }) => metadata.namespace === space.name),
      ).toHaveLength(1);
      await space.update('deployments', 'd', () => ({ spec: { replicas: 1 } }), 'scale');
      await space.untilHas('deployments', 'd', rolledOut(1));
      expect((await space.get('deployments', 'd', 'status')).status).toMatchObject({ readyReplicas: 1 });
      await space.patch('deployments', 'd', { status: { readyReplicas: 1 } }, { subresource: 'status' });
      await space.watching(
        'deployments',
        () => space.removeAll('deployments', 'patched=yes'),
        (type) => type === 'DELETED',
      );
      await space.untilNone('replicasets');
      await space.untilNone('pods');
    });

    it('should validate Deployment Status endpoints', async () => {
      const space = await bench.space();
      await space.create('deployments', 'd', deployment(1));
      await space.untilHas('deployments', 'd', rolledOut(1));
      await space.hasStatus('deployments', 'd');
      expect(has(rolledOut(1))(await space.get('deployments', 'd'))).toBe(true);
    });
  });
}
