import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import type { Item } from '../harness/api.ts';
import { accessibilityFaults, browserMissing, launchBrowser, openPage, type ObservedPage } from '../harness/browser.ts';
import type { Cluster } from '../harness/cluster.ts';
import type { ClusterSpec } from '../harness/composition.ts';
import { Machine } from '../harness/machine.ts';
import { root } from '../harness/oarlock.ts';
import { PlainTab } from '../harness/plain-tab.ts';
import { everyView } from './console/every-view.ts';

/** The replicas that run, a few on each node, and those that wait for another scheduler: these are created in a tenth of the time. */
const [running, waiting] = [3_000, 27_000];
/** All pods: those of the Deployments, and one before and one after them by name. */
const pods = running + waiting + 2;
/** A tab has 44 to 99 MiB in these views. */
const maxTabMiB = 150;
const missing = browserMissing();

interface Deployment extends Item {
  readonly status: { readonly replicas?: number; readonly readyReplicas?: number };
}

const service = { apiVersion: 'v1', kind: 'Service', metadata: { name: 'big' }, spec: { selector: { app: 'big' }, ports: [{ port: 80 }] } };
const deployment = (name: string, replicas: number, spec: object = {}) => ({
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { name },
  spec: {
    replicas,
    selector: { matchLabels: { app: name } },
    template: { metadata: { labels: { app: name } }, spec: { containers: [{ name: 'x', image: 'x' }], ...spec } },
  },
});

describe.skipIf(missing !== undefined)(
  `the console with 30,000 pods on 1,000 simulated nodes${missing === undefined ? '' : ` (${missing})`}`,
  { retry: 0 }, // steps on one page
  () => {
    const machine = Machine.use();
    let cluster: Cluster;
    let browser: Browser;
    let view: ObservedPage;
    const table = '#/r/core/v1/pods';
    const goTo = (hash: string) => view.page.goto(`https://127.0.0.1:${cluster.port}/console/${hash}`);
    const link = async () => (await cluster.oarlock('console')).stdout.trim();
    const createPod = (name: string) => cluster.kubectl.run(['run', name, '--image=x']);
    const rows = () => view.page.getByRole('grid').getByRole('row');

    beforeAll(async () => {
      const { spec } = parse(await readFile(join(root, 'clusters', 'simulated-1000.yaml'), 'utf8')) as { readonly spec: ClusterSpec };
      // half of the renewals of a thousand leases, which are half of the processor time of the cluster
      const kubelet = { ...spec.settings?.['kubelet'], port: 0, nodeLeaseDurationSeconds: 80 };
      const settings = { ...spec.settings, kubelet };
      cluster = await machine.cluster({ spec: { ...spec, settings }, nodeName: 'sim' });
      await cluster.api.until('1000 nodes', '/api/v1/nodes', (nodes) => nodes.length === 1000);
      await cluster.kubectl.apply([service, deployment('big', running), deployment('waiting', waiting, { schedulerName: 'another' })]);
      await Promise.all(['aaa-first', 'zzz-last'].map(createPod));
      browser = await launchBrowser();
      view = await openPage(browser);
      await cluster.api.until<Deployment>(
        'all pods exist, and those of this scheduler are ready',
        '/apis/apps/v1/namespaces/default/deployments',
        ([big, other]) => big?.status.readyReplicas === running && other?.status.replicas === waiting,
        600_000,
      );
    });
    afterAll(() => browser?.close());

    it('lists all pods, from the first to the last', async () => {
      await view.page.goto(await link());
      await view.page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
      await goTo(table);
      await view.page.getByText(`${pods.toLocaleString('en')} objects`).waitFor();
      await expect.poll(() => rows().nth(1).innerText()).toMatch(/aaa-first/);
      await view.page.getByRole('grid').focus();
      await view.page.keyboard.press('End');
      await expect.poll(() => rows().last().innerText()).toMatch(/zzz-last/);
      expect(await rows().last().getAttribute('aria-rowindex')).toBe(String(pods + 1));
      // the page has the visible rows only
      expect(await rows().count()).toBeLessThan(100);
      expect(await accessibilityFaults(view.page)).toEqual([]);
    });

    it('shows a new pod and the end of it, and filters all rows', async () => {
      await view.page.keyboard.press('Home');
      const watches: string[] = [];
      view.page.on('request', (request) => request.url().includes('/pods?watch') && watches.push(request.url()));
      await createPod('aab-live');
      await expect.poll(() => rows().nth(2).innerText()).toMatch(/aab-live[^]*Running/);
      await view.page.getByText(`${(pods + 1).toLocaleString('en')} objects`).waitFor();
      await cluster.api.call('DELETE', '/api/v1/namespaces/default/pods/aab-live?gracePeriodSeconds=0');
      await view.page.getByText(`${pods.toLocaleString('en')} objects`).waitFor();
      expect(watches).toEqual([]); // all by the watch that is open
      await view.page.getByLabel('Filter rows').fill('zzz-last');
      await view.page.getByText(`1 of ${pods.toLocaleString('en')}`).waitFor();
      await expect.poll(() => rows().nth(1).innerText()).toMatch(/zzz-last/);
    });

    it('opens every view, without a fault of accessibility', async () => {
      const [pod] = (
        await cluster.api.get<{ readonly items: readonly Item[] }>('/api/v1/namespaces/default/pods?labelSelector=app%3Dbig&limit=1')
      ).items;
      const faults: string[] = [];
      for (const [what, hash, content] of everyView({ deployment: 'big', pod: pod?.metadata.name ?? '', node: 'sim-1' })) {
        await goTo(hash);
        await view.page.locator('main').getByText(content).first().waitFor();
        faults.push(...(await accessibilityFaults(view.page)).map((fault) => `${what}: ${fault}`));
      }
      expect(faults).toEqual([]);
      expect(view.faults).toEqual([]);
    });

    it('bounds the memory of its tab in each view of many objects', async () => {
      await view.context.close(); // a tab with the network inspector, whose memory is not that of the page
      const tab = await PlainTab.open(browser);
      const use: Record<string, number> = {};
      await tab.goTo(await link());
      await tab.waitForText('Control plane');
      for (const [hash, content] of [
        [table, `${pods.toLocaleString('en')} objects`],
        ['#/topology', 'What if this node is lost?'],
        ['#/o/apps/v1/deployments/default/big', 'The workload is large'],
      ] as const) {
        await tab.goTo(`https://127.0.0.1:${cluster.port}/console/${hash}`);
        await tab.waitForText(content);
        use[hash] = Math.round(await tab.processMiB({ collect: true }));
      }
      expect(Object.entries(use).filter(([, size]) => size > maxTabMiB)).toEqual([]);
      await tab.close();
    });
  },
);
