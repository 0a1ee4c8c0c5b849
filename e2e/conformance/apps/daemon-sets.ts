import { describe, expect, it } from 'vitest';
import { container, imageOf, labels, newImage, ready, selector, template, type Thing, type Workbench } from './workbench.ts';

const daemon = (more: object = {}, spec: object = {}) => ({ spec: { selector, template: template('web:1', spec), ...more } });
const count = 4;
const available = { status: { desiredNumberScheduled: count, numberAvailable: count, updatedNumberScheduled: count } };
const nodesOf = (pods: readonly Thing[]) => new Set(pods.map(({ spec }) => spec?.['nodeName']));

export function daemonSets(bench: Workbench): void {
  describe.concurrent('[sig-apps] Daemon set [Serial]', () => {
    it('should run and stop simple daemon', async () => {
      const space = await bench.space();
      await space.create('daemonsets', 'ds', daemon());
      const pods = await space.untilReady(count);
      expect(nodesOf(pods).size).toBe(count);
      const [lost] = pods;
      await space.remove('pods', lost?.metadata.name ?? '');
      await space.until(
        'pods',
        'another replaces it',
        (all) => all.filter(ready).length === count && !all.some(({ metadata }) => metadata.uid === lost?.metadata.uid),
      );
    });

    it('should run and stop complex daemon', async () => {
      const space = await bench.space();
      const color = `color-${space.name}`;
      await space.create('daemonsets', 'ds', daemon({}, { nodeSelector: { [color]: 'blue' } }));
      await space.untilHas('daemonsets', 'ds', { status: { observedGeneration: 1, desiredNumberScheduled: 0 } });
      const paint = (value: string) =>
        space.api.json('PATCH', '/api/v1/nodes/node-1', {
          body: { metadata: { labels: { [color]: value } } },
          headers: { 'content-type': 'application/merge-patch+json' },
        });
      await paint('blue');
      expect([...nodesOf(await space.untilReady(1))]).toEqual(['node-1']);
      await paint('green');
      await space.untilNone('pods');
      await space.patch('daemonsets', 'ds', {
        spec: { updateStrategy: { type: 'RollingUpdate' }, template: { spec: { nodeSelector: { [color]: 'green' } } } },
      });
      expect([...nodesOf(await space.untilReady(1))]).toEqual(['node-1']);
    });

    it('should retry creating failed daemon pods', async () => {
      const space = await bench.space();
      await space.create('daemonsets', 'ds', daemon());
      const [pod] = await space.untilReady(count);
      const name = pod?.metadata.name ?? '';
      await space.patch('pods', name, { status: { phase: 'Failed' } }, { subresource: 'status' });
      await space.until(
        'pods',
        'the failed pod replaced',
        (all) => all.filter(ready).length === count && !all.some(({ metadata }) => metadata.name === name),
      );
    });

    it('should update pod when spec was updated and update strategy is RollingUpdate', async () => {
      const space = await bench.space();
      await space.create('daemonsets', 'ds', daemon({ updateStrategy: { type: 'RollingUpdate' } }));
      await space.untilHas('daemonsets', 'ds', available);
      const [first] = (await space.list('controllerrevisions')).items;
      await space.patch('daemonsets', 'ds', newImage('web:2'), { type: 'strategic' });
      await space.until('pods', 'new pods', (pods) => pods.length === count && pods.every((pod) => ready(pod) && imageOf(pod) === 'web:2'));
      const revisions = await space.until('controllerrevisions', 'two revisions', (all) => all.length === 2);
      expect(revisions.map(({ revision }) => revision).sort()).toEqual([1, 2]);
      expect(revisions.some(({ metadata }) => metadata.name === first?.metadata.name)).toBe(true);
    });

    it('should rollback without unnecessary restarts', async () => {
      const space = await bench.space();
      await space.create('daemonsets', 'ds', daemon({ updateStrategy: { type: 'RollingUpdate', rollingUpdate: { maxUnavailable: 1 } } }));
      await space.untilHas('daemonsets', 'ds', available);
      const before = (await space.list('pods')).items;
      const stuck = { spec: { template: { spec: { containers: [container('stuck:1', { command: ['/no/such/file'] })] } } } };
      await space.patch('daemonsets', 'ds', stuck, { type: 'strategic' });
      await space.until('pods', 'an update that is stuck', (pods) => pods.some((pod) => imageOf(pod) === 'stuck:1'));
      const kept = (await space.list('pods')).items.filter(
        (pod) => imageOf(pod) === 'web:1' && pod.metadata.deletionTimestamp === undefined,
      );
      await space.patch(
        'daemonsets',
        'ds',
        { spec: { template: { spec: { containers: [container('web:1', { command: null })] } } } },
        { type: 'strategic' },
      );
      const after = await space.until(
        'pods',
        'all pods as before',
        (pods) => pods.length === count && pods.every((pod) => ready(pod) && imageOf(pod) === 'web:1'),
      );
      // pods that the update had not reached were not restarted
      expect(kept.length).toBeGreaterThanOrEqual(count - 1);
      const uids = (pods: readonly Thing[]) => new Set(pods.map(({ metadata }) => metadata.uid));
      expect([...uids(kept)].filter((uid) => !uids(after).has(uid))).toEqual([]);
      expect(uids(before).size).toBe(count);
    });

    it('should list and delete a collection of DaemonSets', async () => {
      const space = await bench.space();
      await space.create('daemonsets', 'ds', daemon(), { labels: { e2e: space.name } });
      await space.untilReady(count);
      expect((await space.everywhere('daemonsets', `e2e=${space.name}`)).items).toHaveLength(1);
      await space.removeAll('daemonsets', `e2e=${space.name}`);
      await space.untilNone('daemonsets');
      await space.untilNone('pods');
    });

    it('should verify changes to a daemon set status', async () => {
      const space = await bench.space();
      await space.create('daemonsets', 'ds', daemon());
      await space.untilHas('daemonsets', 'ds', available);
      await space.hasStatus('daemonsets', 'ds');
    });
  });

  describe.concurrent('[sig-apps] ControllerRevision [Serial]', () => {
    it('should manage the lifecycle of a ControllerRevision', async () => {
      const space = await bench.space();
      await space.create('daemonsets', 'ds', daemon());
      await space.untilHas('daemonsets', 'ds', available);
      const all = async () => (await space.list('controllerrevisions', 'app=test')).items;
      const [first] = await all();
      const name = first?.metadata.name ?? '';
      expect(first?.metadata.ownerReferences).toMatchObject([{ kind: 'DaemonSet', name: 'ds' }]);
      const patched = await space.patch('controllerrevisions', name, { metadata: { labels: { [name]: 'patched' } } });
      expect(patched.metadata.labels?.[name]).toBe('patched');
      const { data, metadata } = first as Thing;
      const owners = { labels, ownerReferences: metadata.ownerReferences };
      await space.create('controllerrevisions', 'second', { data, revision: 2 }, owners);
      await space.until('controllerrevisions', 'two revisions', (some) => some.length === 2);
      // an identical one replaces it
      await space.remove('controllerrevisions', name);
      expect((await all()).map((each) => each.metadata.name)).toEqual(['second']);
      const updated = await space.update('controllerrevisions', 'second', (each) => ({
        metadata: { ...each.metadata, labels: { ...each.metadata.labels, second: 'updated' } },
      }));
      expect(updated.metadata.labels?.['second']).toBe('updated');
      await space.patch('daemonsets', 'ds', { spec: { template: { spec: { terminationGracePeriodSeconds: 0 } } } });
      await space.until('controllerrevisions', 'a revision of the new template', (some) => some.length === 2);
      await space.untilHas('daemonsets', 'ds', { status: { observedGeneration: 2, ...available.status } });
      await space.removeAll('controllerrevisions', 'second=updated');
      // the newest revision stays, and is created again when it is needed
      const left = await space.until('controllerrevisions', 'only the newest revision', (some) => some.length === 1);
      expect(left[0]?.revision).toBe(3);
    });
  });
}
