import { describe, expect, it } from 'vitest';
import { imageOf, labels, newImage, ready, selector, template, type Thing, type Workbench } from './workbench.ts';

const set = (replicas: number, more: object = {}, annotations: Readonly<Record<string, string>> = {}) => ({
  spec: { replicas, serviceName: 'test', selector, template: template('web:1', {}, annotations), ...more },
});
/** Only the first probe of a pod counts: a pod that fails it is not ready. */
const probed = { readinessProbe: { exec: { command: ['probe'] }, periodSeconds: 1, failureThreshold: 1 } };
const unreadyUntil = 'simulated.oarlock.dev/ready-after';
const withProbe = (replicas: number, more: object = {}) => {
  const { spec } = set(replicas, more);
  const [one] = spec.template.spec.containers;
  return { spec: { ...spec, template: { ...spec.template, spec: { ...spec.template.spec, containers: [{ ...one, ...probed }] } } } };
};
const names = (pods: readonly Thing[]) =>
  pods
    .map(({ metadata }) => metadata.name)
    .sort()
    .join();
const revisionOf = ({ metadata }: Thing) => metadata.labels?.['controller-revision-hash'];

export function statefulSets(bench: Workbench): void {
  describe.concurrent('[sig-apps] StatefulSet Basic StatefulSet functionality [StatefulSetBasic]', () => {
    it('should have a working scale subresource', async () => {
      const space = await bench.space();
      await space.create('statefulsets', 'ss', set(1));
      await space.untilReady(1);
      await space.scales('statefulsets', 'ss', 1);
      expect(names((await space.list('pods')).items)).toBe('ss-0,ss-1,ss-2');
    });

    it('should perform rolling updates and roll backs of template modifications', async () => {
      const space = await bench.space();
      await space.create('statefulsets', 'ss', set(3));
      const first = await space.untilHas('statefulsets', 'ss', { status: { readyReplicas: 3, currentReplicas: 3 } });
      expect(first.status?.['currentRevision']).toBe(first.status?.['updateRevision']);
      const rollTo = async (image: string) => {
        await space.patch('statefulsets', 'ss', newImage(image), { type: 'strategic' });
        const order: string[] = [];
        await space.until('pods', `pods of ${image}`, (pods) => {
          for (const pod of pods) if (imageOf(pod) === image && !order.includes(pod.metadata.name)) order.push(pod.metadata.name);
          return pods.length === 3 && pods.every((pod) => ready(pod) && imageOf(pod) === image);
        });
        expect(order).toEqual(['ss-2', 'ss-1', 'ss-0']);
        const [after] = await space.until(
          'statefulsets',
          'one revision',
          ([one]) => one?.status?.['currentRevision'] === one?.status?.['updateRevision'] && one?.status?.['updatedReplicas'] === 3,
        );
        return after?.status?.['currentRevision'];
      };
      expect(await rollTo('web:2')).not.toBe(first.status?.['currentRevision']);
      // the earlier revision is reused
      expect(await rollTo('web:1')).toBe(first.status?.['currentRevision']);
    });

    it('should perform canary updates and phased rolling updates of template modifications', async () => {
      const space = await bench.space();
      const strategy = (partition: number) => ({ updateStrategy: { type: 'RollingUpdate', rollingUpdate: { partition } } });
      await space.create('statefulsets', 'ss', set(3, strategy(3)));
      const first = await space.untilHas('statefulsets', 'ss', { status: { readyReplicas: 3, currentReplicas: 3 } });
      const before = first.status?.['currentRevision'];
      await space.patch('statefulsets', 'ss', newImage('web:2'), { type: 'strategic' });
      const [held] = await space.until(
        'statefulsets',
        'an update that waits',
        ([one]) => one?.status?.['updateRevision'] !== before && one?.status?.['observedGeneration'] === one?.metadata.generation,
      );
      const update = held?.status?.['updateRevision'];
      expect((await space.list('pods')).items.map(revisionOf)).toEqual([before, before, before]);
      const updated = (wanted: readonly string[]) => (pods: readonly Thing[]) =>
        pods.length === 3 && pods.every((pod) => ready(pod) && revisionOf(pod) === (wanted.includes(pod.metadata.name) ? update : before));
      // a canary
      await space.patch('statefulsets', 'ss', { spec: strategy(2) });
      await space.until('pods', 'the canary', updated(['ss-2']));
      // a deleted pod is created again in its revision
      for (const name of ['ss-0', 'ss-2']) await space.remove('pods', name);
      await space.until('pods', 'restored pods', updated(['ss-2']));
      for (const [partition, wanted] of [
        [1, ['ss-1', 'ss-2']],
        [0, ['ss-0', 'ss-1', 'ss-2']],
      ] as const) {
        await space.patch('statefulsets', 'ss', { spec: strategy(partition) });
        await space.until('pods', `phase ${partition}`, updated(wanted));
      }
      await space.until('statefulsets', 'a completed update', ([one]) => one?.status?.['currentRevision'] === update);
    });

    it('Scaling should happen in predictable order and halt if any stateful pod is unhealthy [Slow]', async () => {
      const space = await bench.space();
      const { spec } = withProbe(3);
      const slow = { ...spec.template, metadata: { labels, annotations: { [unreadyUntil]: '1500ms' } } };
      await space.create('statefulsets', 'ss', { spec: { ...spec, template: slow } });
      const order: string[] = [];
      await space.until('pods', 'three pods, one after another', (pods) => {
        for (const { metadata } of pods) if (!order.includes(metadata.name)) order.push(metadata.name);
        expect(pods.length, 'a pod was created before the previous one was ready').toBeLessThanOrEqual(pods.filter(ready).length + 1);
        return pods.filter(ready).length === 3;
      });
      expect(order).toEqual(['ss-0', 'ss-1', 'ss-2']);
      const gone: string[] = [];
      let scaled: Promise<unknown> | undefined;
      await space.until('pods', 'none, the last first', (pods) => {
        // after the list, from which the watch reports each deletion: a list after the patch may lack two pods
        scaled ??= space.patch('statefulsets', 'ss', { spec: { replicas: 0 } });
        const there = new Set(pods.map(({ metadata }) => metadata.name));
        for (const name of order) if (!there.has(name) && !gone.includes(name)) gone.push(name);
        return pods.length === 0;
      });
      await scaled;
      expect(gone).toEqual(['ss-2', 'ss-1', 'ss-0']);
    });

    it('Burst scaling should run to completion even with unhealthy pods [Slow]', async () => {
      const space = await bench.space();
      const { spec } = withProbe(3, { podManagementPolicy: 'Parallel' });
      const never = { ...spec.template, metadata: { labels, annotations: { [unreadyUntil]: '1h' } } };
      await space.create('statefulsets', 'ss', { spec: { ...spec, template: never } });
      const running = (count: number) => (pods: readonly Thing[]) =>
        pods.length === count && pods.every(({ status }) => status?.['phase'] === 'Running');
      await space.until('pods', 'three that are not ready', running(3));
      await space.patch('statefulsets', 'ss', { spec: { replicas: 5 } });
      const pods = await space.until('pods', 'five that are not ready', running(5));
      expect(pods.some(ready)).toBe(false);
      await space.patch('statefulsets', 'ss', { spec: { replicas: 0 } });
      await space.untilNone('pods');
    });

    it('Should recreate evicted statefulset', async () => {
      const space = await bench.space();
      await space.create('statefulsets', 'ss', set(1));
      const [evicted] = await space.untilReady(1);
      // as a node reports a pod that it rejects or evicts
      await space.patch('pods', 'ss-0', { status: { phase: 'Failed', reason: 'Evicted' } }, { subresource: 'status' });
      await space.until('pods', 'ss-0 created again', (pods) =>
        pods.some((pod) => pod.metadata.name === 'ss-0' && pod.metadata.uid !== evicted?.metadata.uid && ready(pod)),
      );
    });

    it('should list, patch and delete a collection of StatefulSets', async () => {
      const space = await bench.space();
      await space.create('statefulsets', 'ss', set(1), { labels: { e2e: space.name } });
      await space.untilReady(1);
      await space.patch(
        'statefulsets',
        'ss',
        { metadata: { labels: { patched: 'yes' } }, ...newImage('web:2'), spec: { ...newImage('web:2').spec, replicas: 2 } },
        { type: 'strategic' },
      );
      const patched = await space.untilHas('statefulsets', 'ss', { status: { readyReplicas: 2, updatedReplicas: 2 } });
      expect(patched.spec).toMatchObject({ template: { spec: { containers: [{ image: 'web:2' }] } } });
      expect((await space.everywhere('statefulsets', `e2e=${space.name}`)).items).toHaveLength(1);
      await space.removeAll('statefulsets', `e2e=${space.name}`);
      await space.untilNone('statefulsets');
      await space.untilNone('pods');
    });

    it('should validate Statefulset Status endpoints', async () => {
      const space = await bench.space();
      await space.create('statefulsets', 'ss', set(1));
      await space.untilHas('statefulsets', 'ss', { status: { readyReplicas: 1 } });
      await space.hasStatus('statefulsets', 'ss');
    });
  });
}
