// The console with 30,000 pods on 1,000 simulated nodes: the time until the first rows and until all rows are listed, the time from a key or a scroll
// to the next paint, at rest and during a rolling restart, and the memory of the tab. OARLOCK_PODS changes the number of pods.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { CDPSession, Page } from 'playwright-core';
import { parse } from 'yaml';
import { browserMissing, launchBrowser, openPage } from '../harness/browser.ts';
import type { Item } from '../harness/api.ts';
import type { ClusterSpec } from '../harness/composition.ts';
import { root } from '../harness/oarlock.ts';
import { BenchEnvironment, residentMiB } from './support/bench-environment.ts';
import { median, print, quantile } from './support/statistics.ts';

const replicas = Number(process.env['OARLOCK_PODS'] ?? 30_000);
const interactions = 15;
const restartMs = 60_000;
const patienceMs = 1_200_000;

interface Deployment extends Item {
  readonly status: { readonly replicas?: number; readonly readyReplicas?: number };
}

/** Performs the interaction in the page, and returns the milliseconds until the paint after it. */
const untilPaint = (page: Page, interaction: string): Promise<number> =>
  page.evaluate(`new Promise((resolve) => {
    const began = performance.now();
    ${interaction};
    requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - began)));
  })`);

/** The interactions of a user with the table: filters, jumps to an end, and scrolls. */
const steps = [
  `(() => { const input = document.querySelector('input[type=search]'); input.value = INDEX % 2 ? '' : 'big-1'; input.dispatchEvent(new Event('input', { bubbles: true })); })()`,
  `document.querySelector('[role=grid]').dispatchEvent(new KeyboardEvent('keydown', { key: INDEX % 2 ? 'Home' : 'End', bubbles: true }))`,
  `document.querySelector('[role=grid]').scrollTop = (INDEX * 7919 % 100) / 100 * document.querySelector('[role=grid]').scrollHeight`,
];

async function interact(page: Page): Promise<readonly number[]> {
  const times: number[] = [];
  for (let index = 0; index < interactions; index += 1)
    for (const step of steps) times.push(await untilPaint(page, step.replaceAll('INDEX', String(index))));
  return times;
}

/** Returns the memory of the page's scripts after a collection, in MiB. */
async function heapMiB(session: CDPSession): Promise<number> {
  await session.send('HeapProfiler.collectGarbage');
  const { metrics } = await session.send('Performance.getMetrics');
  return (metrics.find(({ name }) => name === 'JSHeapUsedSize')?.value ?? 0) / 2 ** 20;
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
    const { page } = await openPage(browser);
    const link = (await cluster.oarlock('console')).stdout.trim();
    await page.goto(link);
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
    await page.goto('about:blank');
    await page.goto(`https://127.0.0.1:${cluster.port}/console/#/r/core/v1/pods`);
    await page.getByRole('grid').getByText('big-').first().waitFor();
    const firstRows = (await page.evaluate('performance.now()')) as number;
    const firstPaint = (await page.evaluate(`performance.getEntriesByName('first-contentful-paint')[0].startTime`)) as number;
    await page.getByText(`${replicas.toLocaleString('en')} objects`).waitFor();
    const allRows = (await page.evaluate('performance.now()')) as number;
    const session = await page.context().newCDPSession(page);
    await session.send('Performance.enable');
    const atRest = await interact(page);
    const heapBefore = await heapMiB(session);

    await kubectl.run(['rollout', 'restart', 'deployment', 'big']);
    const during: number[] = [];
    const began = performance.now();
    while (performance.now() - began < restartMs) during.push(...(await interact(page)));
    const heapAfter = await heapMiB(session);
    print([
      { what: 'first contentful paint', value: firstPaint, unit: 'ms' },
      { what: `first rows of ${replicas} pods`, value: firstRows, unit: 'ms' },
      { what: 'all rows', value: allRows, unit: 'ms' },
      { what: 'interaction to paint, median', value: median([...atRest]), unit: 'ms' },
      { what: 'interaction to paint, 95th percentile', value: quantile([...atRest], 0.95), unit: 'ms' },
      { what: 'during a rolling restart, median', value: median(during), unit: 'ms' },
      { what: 'during a rolling restart, 95th percentile', value: quantile(during, 0.95), unit: 'ms' },
      { what: 'script memory of the tab', value: heapBefore, unit: 'MiB' },
      { what: `after ${restartMs / 1000} s of the restart`, value: heapAfter, unit: 'MiB' },
      { what: 'resident memory of the server before the pods', value: before, unit: 'MiB' },
      { what: 'with the pods', value: await residentMiB(cluster.pid), unit: 'MiB' },
    ]);
  } finally {
    await browser.close();
  }
});
