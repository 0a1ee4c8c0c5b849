// Pods on containerd, image present: one after the other and many at once, from create to Ready. Reference: the same by CRI calls alone.
import { busyboxImage } from '../fixtures/test-image.ts';
import { composition } from '../harness/composition.ts';
import { bareRuntime } from './bare-containerd.ts';
import { median, print, quantile } from './figures.ts';
import { Stage } from './stage.ts';

const single = 12;
const together = 30;

await Stage.with(async (stage) => {
  const containerd = await stage.containerd();
  const cluster = await stage.cluster({ spec: composition({ storage: 'memory', runtime: 'containerd', network: 'bridge', containerd }) });
  const { api } = cluster;
  const create = (name: string, app: string) =>
    api.json('POST', '/api/v1/namespaces/default/pods', {
      body: {
        apiVersion: 'v1',
        kind: 'Pod',
        metadata: { name, labels: { app } },
        spec: { terminationGracePeriodSeconds: 0, containers: [{ name: 'main', image: busyboxImage, command: ['sleep', '3600'] }] },
      },
    });
  const clear = async () => {
    await api.call('DELETE', '/api/v1/namespaces/default/pods?gracePeriodSeconds=0');
    await api.until('no pods', api.pods('default'), (pods) => pods.length === 0);
  };

  const ones: number[] = [];
  const bares: number[] = [];
  const runtime = await bareRuntime(containerd.socket);
  for (let round = 0; round < single; round++) {
    const name = `one-${round}`;
    const began = performance.now();
    await create(name, name);
    await api.untilReady('default', name, 1);
    ones.push(performance.now() - began);
    await clear();
    const from = performance.now();
    const sandbox = await runtime.startPod();
    bares.push(performance.now() - from);
    await runtime.removePod(sandbox);
  }
  let began = performance.now();
  await Promise.all(Array.from({ length: together }, (_, index) => create(`many-${index}`, 'many')));
  await api.untilReady('default', 'many', together, 120_000);
  const many = performance.now() - began;
  await clear();
  began = performance.now();
  const sandboxes = await Promise.all(Array.from({ length: together }, () => runtime.startPod()));
  const bareMany = performance.now() - began;
  for (const sandbox of sandboxes) await runtime.removePod(sandbox);
  await runtime.close();
  print([
    { what: 'one pod, create to Ready, median', value: median(ones), unit: 'ms', reference: { what: 'CRI alone', value: median(bares) } },
    {
      what: 'one pod, create to Ready, worst',
      value: quantile(ones, 1),
      unit: 'ms',
      reference: { what: 'CRI alone', value: quantile(bares, 1) },
    },
    { what: `${together} pods at once, all Ready`, value: many, unit: 'ms', reference: { what: 'CRI alone', value: bareMany } },
  ]);
});
