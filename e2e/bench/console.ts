// The console with 30,000 pods on 1,000 simulated nodes: the time until the first rows and until all rows are listed, the time from a key or a scroll
// to the next paint, at rest and during a rolling restart, and the memory of the tab. OARLOCK_PODS changes the number of pods.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parse } from 'yaml';
import { browserMissing, launchBrowser } from '../harness/browser.ts';
import type { Item } from '../harness/api.ts';
import type { ClusterSpec } from '../harness/composition.ts';
import { root } from '../harness/oarlock.ts';
import { BenchEnvironment, residentMiB } from './support/bench-environment.ts';
import { openViews } from './support/console-views.ts';
import { median, print, quantile } from './support/statistics.ts';
import { interact, openPlainPodsTab, PodsTab } from './support/table-page.ts';

const replicas = Number(process.env['OARLOCK_PODS'] ?? 30_000);
const restartMs = 60_000;
const patienceMs = 1_200_000;

interface Deployment extends Item {
  readonly status: { readonly replicas?: number; readonly readyReplicas?: number };
}

const missing = browserMissing();
if (missing !== undefined) throw new Error(missing);
await BenchEnvironment.with(async (stage) => {
  const file = parse(await readFile(join(root, 'clusters', 'simulated-1000.yaml'), 'utf8')) as { readonly spec: ClusterSpec };
  const { kubelet } = file.spec.settings ?? {};
  const cluster = await stage.cluster({
    spec: { ...file.spec, settings: { ...file.spec.settings, kubelet: { ...kubelet, port: 0 } } },
    nodeName: 'sim',
  });
  const { api, kubectl } = cluster;
  await api.until('1000 nodes', '/api/v1/nodes', (nodes) => nodes.length === 1000);
  const before = await residentMiB(cluster.pid);
  await kubectl.run(['create', 'deployment', 'big', '--image=x', `--replicas=${replicas}`]);
  const deployments = '/apis/apps/v1/namespaces/default/deployments';
  const allReady = (items: readonly Deployment[]) => items[0]?.status.readyReplicas === replicas;
  await api.until<Deployment>('all pods are ready', deployments, allReady, patienceMs);

  const browser = await launchBrowser();
  try {
    const tab = await PodsTab.open(browser, { link: (await cluster.oarlock('console')).stdout.trim(), pods: replicas });
    const { page } = tab;
    const atRest = await interact(page);
    const heapBefore = await tab.heapMiB();
    const plain = await openPlainPodsTab(browser, { link: (await cluster.oarlock('console')).stdout.trim(), pods: replicas });

    const [pod] = (await api.get<{ readonly items: readonly Item[] }>('/api/v1/namespaces/default/pods?limit=1')).items;
    const views = await openViews(page, pod?.metadata.name ?? '');
    await page.goto(`https://127.0.0.1:${cluster.port}/console/#/r/core/v1/pods`);
    await page.getByText(`${replicas.toLocaleString('en')} objects`).waitFor();

    await kubectl.run(['rollout', 'restart', 'deployment', 'big']);
    const during: number[] = [];
    const began = performance.now();
    while (performance.now() - began < restartMs) during.push(...(await interact(page)));
    const heapAfter = await tab.heapMiB();
    const processAfter = await plain.processMiB({ collect: false });
    print([
      { what: 'first contentful paint', value: tab.firstPaint, unit: 'ms' },
      { what: `first rows of ${replicas} pods`, value: tab.firstRows, unit: 'ms' },
      { what: 'all rows', value: tab.allRows, unit: 'ms' },
      { what: 'interaction to paint, median', value: median([...atRest]), unit: 'ms' },
      { what: 'interaction to paint, 95th percentile', value: quantile([...atRest], 0.95), unit: 'ms' },
      { what: 'during a rolling restart, median', value: median(during), unit: 'ms' },
      { what: 'during a rolling restart, 95th percentile', value: quantile(during, 0.95), unit: 'ms' },
      { what: 'script memory of the tab', value: heapBefore, unit: 'MiB' },
      { what: `after ${restartMs / 1000} s of the restart`, value: heapAfter, unit: 'MiB' },
      { what: 'memory of the tab', value: processAfter, unit: 'MiB' },
      { what: 'resident memory of the server before the pods', value: before, unit: 'MiB' },
      { what: 'with the pods', value: await residentMiB(cluster.pid), unit: 'MiB' },
      ...views,
    ]);
  } finally {
    await browser.close();
  }
});
