// The page of the console with 30,000 pods, alone: the server of the bench has the tables and the events, without a control plane. Measures first and all rows,
// the time from an interaction to the next paint at rest and during a rolling restart, and the memory of the tab after an accelerated hour of it.
// OARLOCK_PODS changes the number of pods. OARLOCK_BASELINE_PAGE names the folder `packages/console-page/dist/page` of another build, which the same run measures
// first as the reference.
import { join } from 'node:path';
import { ApiServerTarget } from '@oarlock/cli/console/api-server-target';
import { ConsoleServer } from '@oarlock/cli/console/console-server';
import { systemClock } from '@oarlock/primitives/clock';
import type { Browser } from 'playwright-core';
import { browserMissing, launchBrowser } from '../harness/browser.ts';
import { root } from '../harness/oarlock.ts';
import { PodTableServer } from '../fixtures/pod-table-server.ts';
import { median, print, quantile, type Figure } from './support/statistics.ts';
import { PlainTab } from '../harness/plain-tab.ts';
import { interact, openPlainPodsTab, PodsTab } from './support/table-page.ts';

const pods = Number(process.env['OARLOCK_PODS'] ?? 30_000);
const baseline = process.env['OARLOCK_BASELINE_PAGE'];
const ownPage = join(root, 'packages', 'console-page', 'dist', 'page');
/** Replacements during the measured interactions, and the time between them, in milliseconds: 1,200 events a second. */
const burst = { pods: 20, everyMs: 100 };
/** Pods that ten replacements a second replace in an hour. */
const hourOfReplacements = Number(process.env['OARLOCK_REPLACEMENTS'] ?? 36_000);
const replacementsAtOnce = 20;
/** Time between them: an hour in a minute. Without it, the renderer never gets to collect garbage, and the figure is that of a page that is always behind. */
const replacementsEveryMs = 30;
/** Replacements between two samples of the memory. */
const samplesEvery = 200;

/** Replaces pods until the work is done. */
async function during<T>(api: PodTableServer, work: Promise<T>): Promise<T> {
  const done = new AbortController();
  const restart = (async () => {
    while (!done.signal.aborted) {
      await api.replace(burst.pods);
      await systemClock.sleep(burst.everyMs);
    }
  })();
  try {
    return await work;
  } finally {
    done.abort();
    await restart;
  }
}

interface MemoryOptions {
  readonly api: PodTableServer;
  readonly link: string;
}

/** Measures the memory of a tab without the network inspector, at first and after an accelerated hour of a rolling restart. */
async function memoryOverAnHour(browser: Browser, { api, link }: MemoryOptions): Promise<readonly Figure[]> {
  const empty = await PlainTab.open(browser);
  const base = await empty.processMiB({ collect: true });
  await empty.close();
  const tab = await openPlainPodsTab(browser, { link, pods });
  try {
    const listed = await tab.processMiB({ collect: false });
    const collected = await tab.processMiB({ collect: true });
    const [replaced, events] = [api.replaced, api.events];
    const began = performance.now();
    let highest = 0;
    while (api.replaced - replaced < hourOfReplacements) {
      await api.replace(replacementsAtOnce);
      await systemClock.sleep(replacementsEveryMs);
      if (api.replaced % samplesEvery === 0) highest = Math.max(highest, await tab.processMiB({ collect: false }));
    }
    const seconds = (performance.now() - began) / 1000;
    await tab.waitForText(`${pods.toLocaleString('en')} objects`);
    return [
      { what: 'memory of an empty tab', value: base, unit: 'MiB' },
      { what: 'memory of the tab with all rows', value: listed, unit: 'MiB' },
      { what: 'after a collection', value: collected, unit: 'MiB' },
      { what: `after ${api.events - events} events`, value: await tab.processMiB({ collect: false }), unit: 'MiB' },
      { what: 'the highest during these events', value: highest, unit: 'MiB' },
      { what: 'after a collection', value: await tab.processMiB({ collect: true }), unit: 'MiB' },
      { what: 'time for these events', value: seconds, unit: 's' },
    ];
  } finally {
    await tab.close();
  }
}

async function measure(browser: Browser, folder: string): Promise<readonly Figure[]> {
  const api = new PodTableServer(pods);
  const server = await ConsoleServer.start({
    target: new ApiServerTarget({ options: { server: await api.listen() } }),
    user: { name: 'bench', groups: [] },
    cluster: { name: 'bench', version: 'v1.36.0' },
    port: 0,
    clock: systemClock,
  });
  const tab = await PodsTab.open(browser, { link: await server.createLink(), folder, pods });
  try {
    const atRest = await interact(tab.page);
    const heap = await tab.heapMiB();
    const busy = await during(api, interact(tab.page));
    await tab.close();
    return [
      { what: 'first contentful paint', value: tab.firstPaint, unit: 'ms' },
      { what: `first rows of ${pods} pods`, value: tab.firstRows, unit: 'ms' },
      { what: 'all rows', value: tab.allRows, unit: 'ms' },
      { what: 'interaction to paint, median', value: median([...atRest]), unit: 'ms' },
      { what: 'interaction to paint, 95th percentile', value: quantile([...atRest], 0.95), unit: 'ms' },
      { what: 'during a rolling restart, median', value: median([...busy]), unit: 'ms' },
      { what: 'during a rolling restart, 95th percentile', value: quantile([...busy], 0.95), unit: 'ms' },
      { what: 'script memory of the tab', value: heap, unit: 'MiB' },
      // the server has the files of this build only
      ...(folder === ownPage ? await memoryOverAnHour(browser, { api, link: await server.createLink() }) : []),
    ];
  } finally {
    await tab.close();
    await server.close();
    api.close();
  }
}

const missing = browserMissing();
if (missing !== undefined) throw new Error(missing);
const browser = await launchBrowser();
try {
  const reference = baseline === undefined ? undefined : await measure(browser, baseline);
  const figures = await measure(browser, ownPage);
  print(
    figures.map((figure, index) => {
      const value = reference?.[index]?.value;
      return value === undefined ? figure : { ...figure, reference: { what: 'of the other page', value } };
    }),
  );
} finally {
  await browser.close();
}
