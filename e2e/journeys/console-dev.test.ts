import { mkdir, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { accessibilityFaults, browserMissing, launchBrowser, openPage } from '../harness/browser.ts';
import { Machine } from '../harness/machine.ts';
import { oarlock } from '../harness/oarlock.ts';
import { Daemon } from '../harness/programs.ts';

const missing = browserMissing();
const source = (attempts: string) => `import { namespaces } from '@oarlock/api/resources';
import { Informers } from '@oarlock/spi/client';
import { Controllers, watch } from '@oarlock/spi/controller';
import { z } from 'zod';

export default Controllers.plugin({
  id: 'controller-counting',
  config: z.strictObject({ attempts: z.number().default(${attempts}) }),
  needs: { informers: Informers },
  create({ informers }) {
    return {
      name: 'counting',
      watches: [watch(informers.forResource(namespaces), ({ metadata }) => [metadata?.name ?? ''])],
      reconcile: async () => ({}),
    };
  },
});
`;

describe.skipIf(missing !== undefined)(`the console of oarlock dev${missing === undefined ? '' : ` (${missing})`}`, () => {
  const machine = Machine.use();
  let browser: Awaited<ReturnType<typeof launchBrowser>>;
  beforeAll(async () => {
    browser = await launchBrowser();
  });
  afterAll(() => browser?.close());

  it('shows the plugin under development as its author declared it, reloads it, and shows what changed', async () => {
    const folder = machine.path('plugin');
    await mkdir(folder, { recursive: true });
    const save = async (text: string) => {
      await writeFile(join(folder, '.plugin.ts.new'), text);
      await rename(join(folder, '.plugin.ts.new'), join(folder, 'plugin.ts'));
    };
    await save(source('3'));
    const args = [...oarlock.args, 'dev', '--data-dir', join(folder, 'data'), './plugin.ts'];
    const daemon = new Daemon(oarlock.file, args, { cwd: folder });
    machine.undo('oarlock dev', () => daemon.stop());
    const [, link = ''] = await daemon.line(/Console: (https:\S+)/);
    const { page, context, faults } = await openPage(browser);
    await page.goto(link);
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
    await page.goto(`${new URL(link).origin}/console/#/plugins/controller/controller-counting`);
    const card = page.getByRole('region', { name: 'controller-counting', exact: true });
    await card.getByText('attempts: 3').waitFor();
    await card.getByText('informers/v1', { exact: true }).waitFor();
    await card.getByRole('button', { name: 'Reload the plugin' }).click();
    await card.getByText(/^Reloaded in \d+ ms$/).waitFor();

    await save(source('4'));
    await expect
      .poll(async () => {
        await page.getByRole('button', { name: 'Load again' }).click();
        return card.getByText('attempts: 4').count();
      })
      .toBe(1);
    await card.locator('.diff-added').getByText('z.number().default(4)').waitFor();
    await card.locator('.diff-removed').getByText('z.number().default(3)').waitFor();
    expect(await accessibilityFaults(page)).toEqual([]);

    await save(`${source('4')}\nexport const = 5;`);
    await daemon.line(/plugin\.ts:19:14: Expected identifier/);
    await card.getByRole('button', { name: 'Reload the plugin' }).click();
    await card.getByText('Not reloaded; the previous version keeps running').waitFor();
    await card.getByText(/Expected identifier/).waitFor();
    await card.getByText('attempts: 4').first().waitFor();
    expect(await accessibilityFaults(page)).toEqual([]);
    expect(faults).toEqual([]);
    await context.close();
  });
});
