import { expect, it } from 'vitest';
import type { Item } from '../../harness/api.ts';
import { until } from '../../harness/until.ts';
import type { NodeWorkbench } from '../node-workbench.ts';

/** Inline CSI volumes in a pod's spec, as far as the API is concerned; mounting is the driver's. */
export function inlineVolumeBehaviours(bench: NodeWorkbench): void {
  it('CSIInlineVolumes should support CSIVolumeSource in Pod API', async () => {
    const driver = `${bench.name('inline')}.e2e.example.com`;
    await bench.create('/apis/storage.k8s.io/v1/csidrivers', { metadata: { name: driver }, spec: { volumeLifecycleModes: ['Ephemeral'] } });
    const csi = { driver, readOnly: true, volumeAttributes: { key: 'value' } };
    const labels = { inline: driver };
    const { metadata } = await bench.pod(
      {
        containers: [bench.container('true', { volumeMounts: [{ name: 'inline', mountPath: '/v' }] })],
        volumes: [{ name: 'inline', csi }],
      },
      { labels },
    );
    const path = `${bench.at('pods')}/${metadata.name}`;
    const selected = `${bench.at('pods')}?labelSelector=inline%3D${driver}`;
    const asked = { spec: { volumes: expect.arrayContaining([{ name: 'inline', csi }]) } };
    expect(await bench.api.get(path)).toMatchObject(asked);
    const { items } = await bench.api.get<{ readonly items: readonly Item[] }>(selected);
    expect(items.map(({ metadata: one }) => one.name)).toEqual([metadata.name]);
    expect(await bench.merge(path, { metadata: { labels: { patched: 'true' } } })).toMatchObject({
      metadata: { labels: { ...labels, patched: 'true' } },
      ...asked,
    });
    await bench.remove(path, { gracePeriodSeconds: 0 });
    await until('the pod is gone', async () => (await bench.api.call('GET', path)).status === 404);
    await bench.remove(`/apis/storage.k8s.io/v1/csidrivers/${driver}`);
  });
}
