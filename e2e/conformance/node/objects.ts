import { expect, it } from 'vitest';
import { startRegistry } from '../../fixtures/registry.ts';
import { buildImage, busyboxLayer } from '../../fixtures/test-image.ts';
import type { Item } from '../../harness/api.ts';
import { until } from '../../harness/until.ts';
import type { NodeWorkbench } from '../node-workbench.ts';
import type { FullPod } from '../pod-follower.ts';

interface NodeInfo {
  readonly status: { readonly nodeInfo: { readonly containerRuntimeVersion: string } };
}

/** Objects of pods that the API and the kubelet handle together, and image volumes. */
export function objectBehaviours(bench: NodeWorkbench): void {
  it('ConfigMap should fail to create ConfigMap with empty key; Secrets should fail to create secret due to empty secret key', async () => {
    for (const [resource, value] of [
      ['configmaps', 'value'],
      ['secrets', 'dmFsdWU='],
    ] as const) {
      const body = { metadata: { name: bench.name('empty-key') }, data: { '': value } };
      const answer = await bench.api.call('POST', bench.at(resource), { body });
      expect({ resource, status: answer.status, text: answer.body }).toMatchObject({ status: 422, text: expect.stringContaining('data') });
    }
  });

  it('ConfigMap should update ConfigMap successfully', async () => {
    const name = bench.name('updated');
    const path = `${bench.at('configmaps')}/${name}`;
    const created = await bench.create<Item & { readonly data?: object }>(bench.at('configmaps'), { metadata: { name }, data: { a: '1' } });
    await bench.api.json('PUT', path, { body: { ...created, data: { a: '2', b: '3' } } });
    expect(await bench.api.get(path)).toMatchObject({ data: { a: '2', b: '3' } });
    await bench.remove(path);
  });

  it('Pods should run through the lifecycle of Pods and PodStatus; should patch a pod status', async () => {
    const { metadata } = await bench.start('exec sleep 600', { labels: { stage: 'made' } });
    const path = `${bench.at('pods')}/${metadata.name}`;
    await bench.merge(path, { metadata: { labels: { stage: 'patched' } } });
    const conditions = [{ type: 'oarlock.test/Noted', status: 'True', reason: 'Patched' }];
    await bench.merge(`${path}/status`, { status: { conditions } }, 'strategic-merge-patch');
    const noted = ({ status }: FullPod) => status.conditions?.some(({ type }) => type === 'oarlock.test/Noted') === true;
    await bench.pods.until(metadata.name, 'carry the condition', noted);
    const ready = ({ status }: FullPod) => status.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True') === true;
    // conditions of the kubelet and of other writers coexist
    const pod = await bench.pods.until(metadata.name, 'be ready with it', (one) => noted(one) && ready(one));
    expect(pod.metadata.labels).toMatchObject({ stage: 'patched' });
    await bench.remove(path, { gracePeriodSeconds: 0 });
    await until(`${metadata.name} is gone`, async () => (await bench.api.call('GET', path)).status === 404);
  });

  it('ImageVolume should succeed with pod and pull policy of Always', async (context) => {
    const { status } = await bench.api.get<NodeInfo>('/api/v1/nodes/node-a');
    const version = status.nodeInfo.containerRuntimeVersion;
    const [, name, major = 0, minor = 0] = /^(\w+):\/\/(?:(\d+)\.(\d+))?/.exec(version) ?? [];
    const able = name === 'oci' || (name === 'containerd' && (Number(major) > 2 || (Number(major) === 2 && Number(minor) >= 1)));
    context.skip(!able, `${version} does not mount images`);
    const registry = await startRegistry([buildImage('oarlock.test/data:1', await busyboxLayer(), {})]);
    try {
      const output = await bench.outputOf({
        nodeName: 'node-a',
        containers: [
          bench.container('cat /image/www/index.html; echo x > /image/x || echo "cannot be written"', {
            volumeMounts: [{ name: 'image', mountPath: '/image' }],
          }),
        ],
        volumes: [{ name: 'image', image: { reference: `${registry.host}/data:1`, pullPolicy: 'Always' } }],
      });
      expect(output.replace(/^sh: .*\n/m, '')).toBe('hello\ncannot be written\n');
      expect(registry.requests.some((request) => request.includes('/data/manifests/'))).toBe(true);
    } finally {
      await registry.stop();
    }
  });
}
