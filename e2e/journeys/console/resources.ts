import type { Page } from 'playwright-core';
import { expect, it } from 'vitest';
import { accessibilityFaults, documentPage, openPage } from '../../harness/browser.ts';
import { TcpRelay } from '../../harness/tcp-relay.ts';
import type { ConsoleStage } from './stage.ts';

/** The longest name that Kubernetes accepts. */
export const longestName = `gadget-${'x'.repeat(246)}`;

/** Updates of an object of 900 KB after which the server has compacted what was before them: it keeps 64 MiB of history. */
const updatesUntilExpired = 80;
const configMap = (large: string) => ({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'large' }, data: { large } });

const gadgets = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: 'gadgets.example.com' },
  spec: {
    group: 'example.com',
    scope: 'Namespaced',
    names: { kind: 'Gadget', plural: 'gadgets', singular: 'gadget' },
    versions: [
      {
        name: 'v1',
        served: true,
        storage: true,
        additionalPrinterColumns: [
          { name: 'Size', type: 'integer', jsonPath: '.spec.size' },
          // as the server's own column
          { name: 'Name', type: 'string', jsonPath: '.spec.title' },
          { name: 'Name', type: 'string', jsonPath: '.spec.maker' },
        ],
        schema: {
          openAPIV3Schema: {
            type: 'object',
            properties: {
              spec: { type: 'object', properties: { size: { type: 'integer' }, title: { type: 'string' }, maker: { type: 'string' } } },
            },
          },
        },
      },
    ],
  },
};

/** Shows resources, edits with a conflict, and loses the connection. */
export function resources(stage: () => ConsoleStage): void {
  it('keeps the text of an edit that conflicts, and compares it with the newest version', async () => {
    await stage().cluster.kubectl.run(['create', 'configmap', 'edited', '--from-literal=a=1']);
    await stage().goTo('#/o/core/v1/configmaps/default/edited/yaml');
    await stage().page.getByRole('button', { name: 'Edit' }).click();
    const editor = stage().page.getByLabel('YAML of the object');
    await editor.fill((await editor.inputValue()).replace('a: "1"', 'a: "2"'));
    await stage().cluster.kubectl.run(['label', 'configmap', 'edited', 'other=true']);
    await stage().page.getByRole('button', { name: 'Review changes' }).click();
    await stage().page.getByText('The object was changed meanwhile').waitFor();
    expect(await editor.inputValue()).toContain('a: "2"');
    await stage().page.getByRole('button', { name: 'Review changes' }).click();
    await stage().page.locator('.diff-removed').getByText('other: "true"').waitFor();
    await stage().page.getByRole('button', { name: 'Apply' }).click();
    await stage().page.getByText('Applied').waitFor();
    expect(await stage().cluster.kubectl.run(['get', 'configmap', 'edited', '-o', 'jsonpath={.data.a}'])).toBe('2');
  });

  it('shows what changed the object: user, field manager, and the values before and after', async () => {
    await stage().tab('Changes');
    const change = stage()
      .page.getByRole('listitem')
      .filter({ has: stage().page.getByText('data.a', { exact: true }) });
    await change.getByRole('row', { name: 'data.a "1" "2" oarlock-console (Update)' }).waitFor();
    await change.getByText('User: kubernetes-admin').waitFor();
    await stage().page.getByText('The object was created').waitFor();
    await documentPage(stage().page, 'console-changes');
    expect(await accessibilityFaults(stage().page)).toEqual([]);
  });

  it('shows why an object that is being deleted is still here', async () => {
    const held = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'held', finalizers: ['widgets.example.com/cleanup'] } };
    await stage().cluster.kubectl.run(['create', '-f', '-'], { input: JSON.stringify(held) });
    await stage().cluster.kubectl.run(['delete', 'configmap', 'held', '--wait=false']);
    await stage().goTo('#/o/core/v1/configmaps/default/held');
    await stage().page.getByText('removed by the component that owns widgets.example.com').waitFor();
    expect(await accessibilityFaults(stage().page)).toEqual([]);
    await stage().cluster.kubectl.run(['patch', 'configmap', 'held', '--type=merge', '-p', '{"metadata":{"finalizers":null}}']);
    await stage().page.getByText('The object does not exist, or was deleted').waitFor();
  });

  it('shows resources that were defined after the page was opened', async () => {
    await stage().goTo('#/resources');
    await stage().page.getByRole('grid').getByText('ConfigMap', { exact: true }).waitFor();
    await stage().cluster.kubectl.run(['create', '-f', '-'], { input: JSON.stringify(gadgets) });
    await stage().cluster.kubectl.run(['wait', '--for=condition=Established', 'crd/gadgets.example.com', '--timeout=60s']);
    await stage().cluster.kubectl.run(['create', '-f', '-'], {
      input: JSON.stringify({
        apiVersion: 'example.com/v1',
        kind: 'Gadget',
        metadata: { name: longestName },
        spec: { size: 3, title: 'a title', maker: 'a maker' },
      }),
    });
    await stage().goTo('#/r/example.com/v1/gadgets');
    await stage().heading('Gadget');
    await stage().page.getByText('1 object', { exact: true }).waitFor();
    await stage()
      .page.getByRole('row', { name: `${longestName} 3 a title a maker` })
      .waitFor();
    await stage().cluster.kubectl.run(['patch', 'gadgets', longestName, '--type=merge', '-p', '{"spec":{"title":"another","maker":null}}']);
    await stage()
      .page.getByRole('row', { name: `${longestName} 3 another` })
      .waitFor();
    const cells = await stage().page.getByRole('grid').getByRole('row').last().getByRole('gridcell').allTextContents();
    expect(cells.slice(-4)).toEqual([longestName, '3', 'another', '']);
    await stage().page.keyboard.press('/');
    await stage().page.getByRole('combobox', { name: 'Search resources and views' }).fill('gadget');
    await stage()
      .page.getByRole('option', { name: /gadgets/ })
      .waitFor();
    await stage().page.keyboard.press('Escape');
  });

  it('filters on the server by labels, fields and namespace, which the address keeps, and reports an invalid selector', async () => {
    const { page, cluster } = stage();
    await cluster.kubectl.run(['create', 'namespace', 'elsewhere']);
    await cluster.kubectl.run(['label', 'configmap', 'edited', 'team=blue']);
    await stage().goTo('#/r/core/v1/configmaps');
    const filterBy = async (label: string, selector: string) => {
      await page.getByLabel(label).fill(selector);
      await page.keyboard.press('Enter');
    };
    await filterBy('Label selector', 'team=blue');
    await page.getByText('1 object', { exact: true }).waitFor();
    await page.getByRole('grid').getByText('edited').waitFor();
    await filterBy('Label selector', 'a in');
    await page.getByText(/Not available: ./).waitFor();
    await filterBy('Label selector', '');
    await filterBy('Field selector', 'metadata.name=kube-root-ca.crt');
    await expect.poll(() => page.getByRole('grid').getByText('kube-root-ca.crt').count()).toBeGreaterThan(4);
    await page.getByLabel('Namespace').selectOption('elsewhere');
    await page.getByText('1 object', { exact: true }).waitFor();
    await page.reload();
    await page.getByText('1 object', { exact: true }).waitFor();
    expect(await page.getByLabel('Namespace').inputValue()).toBe('elsewhere');
    expect(await page.getByLabel('Field selector').inputValue()).toBe('metadata.name=kube-root-ca.crt');
    await page.getByLabel('Namespace').selectOption('');
  });

  it('finds objects of all kinds by a part of their name', async () => {
    await stage().goTo('#/resources');
    const search = stage().page.locator('.object-search');
    await search.getByLabel('Search objects of all kinds by name').fill('edited');
    await search.getByRole('button', { name: 'Search' }).click();
    await search.getByRole('link', { name: 'ConfigMap default/edited' }).click();
    await stage().heading(/edited/);
  });

  it('shows changes of others at once, and resumes without a lost change after the connection was lost', async () => {
    const line = await TcpRelay.to(stage().cluster.port);
    const other = await openPage(stage().browser);
    await other.page.goto((await stage().createLink()).replace(`:${stage().cluster.port}/`, `:${line.port}/`));
    await other.page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
    await other.page.goto(`https://127.0.0.1:${line.port}/console/#/r/core/v1/configmaps?ns=default`);
    const grid = other.page.getByRole('grid');
    await grid.getByText('edited').waitFor();
    await stage().cluster.kubectl.run(['create', 'configmap', 'live']);
    await grid.getByText('live').waitFor();
    const watches: string[] = [];
    other.page.on('request', (request) => request.url().includes('/configmaps?watch') && watches.push(request.url()));
    for (const name of ['second', 'third']) await stage().cluster.kubectl.run(['create', 'configmap', name]);
    await grid.getByText('third').waitFor();
    expect(watches).toEqual([]); // all by the watch that is open
    line.cut();
    await other.page.getByText(/reconnecting/).waitFor();
    expect(await grid.getByText('live').count()).toBe(1);
    await stage().cluster.kubectl.run(['create', 'configmap', 'meanwhile']);
    await stage().cluster.kubectl.run(['delete', 'configmap', 'live']);
    line.restore();
    await grid.getByText('meanwhile').waitFor();
    await grid.getByText('live').waitFor({ state: 'detached' });
    await other.page.getByText('Live', { exact: true }).waitFor();
    await outlivesExpired(stage(), other.page, line);
    expect(other.faults).toEqual([]);
    await other.context.close();
    await line.close();
  });
}

/** Cuts the connection until the server answers the watch with 410 Gone, and expects that the page lists again without losing what it shows. */
async function outlivesExpired({ cluster }: ConsoleStage, page: Page, line: TcpRelay): Promise<void> {
  const grid = page.getByRole('grid');
  await page.getByLabel('Filter rows').fill('me');
  await page.getByLabel('All columns').check();
  await grid.getByRole('row', { name: /meanwhile/ }).click();
  const selected = grid.getByRole('row', { name: /meanwhile/, selected: true });
  await selected.waitFor();
  await page.evaluate(`(() => {
    const grid = document.querySelector('[role=grid]');
    window.lostRow = false;
    new MutationObserver(() => (window.lostRow ||= !grid.textContent.includes('meanwhile'))).observe(grid, { childList: true, subtree: true });
  })()`);
  line.cut();
  await cluster.api.json('POST', '/api/v1/namespaces/default/configmaps', { body: configMap('') });
  const large = 'x'.repeat(900_000);
  for (let update = 0; update < updatesUntilExpired; update += 1)
    await cluster.api.json('PUT', '/api/v1/namespaces/default/configmaps/large', { body: configMap(`${update} ${large}`) });
  await cluster.kubectl.run(['create', 'configmap', 'after-compaction-me']);
  line.restore();
  await page.getByText('Listed again').waitFor();
  await grid.getByText('after-compaction-me').waitFor();
  await page.getByText('Live', { exact: true }).waitFor();
  await selected.waitFor();
  expect(await page.getByLabel('Filter rows').inputValue()).toBe('me');
  expect(await page.getByLabel('All columns').isChecked()).toBe(true);
  expect(await page.evaluate('window.lostRow')).toBe(false);
  await cluster.kubectl.run(['delete', 'configmap', 'large']);
}
