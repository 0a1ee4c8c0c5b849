import type { Page } from 'playwright-core';
import { expect, it } from 'vitest';
import { withConsole } from './any-cluster.ts';
import type { ConsoleStage } from './stage.ts';

/** A pod that writes its lines without a gap: their number is in the last one. */
const counter = {
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name: 'counter' },
  spec: {
    terminationGracePeriodSeconds: 1,
    containers: [
      { name: 'c', image: 'host', command: ['node', '-e', 'let n = 0; setInterval(() => console.log(`line ${(n += 1)}`), 200)'] },
    ],
  },
};

/** Returns the number of lines that a log view has, and the number in its last line. */
const countedLines = async (page: Page): Promise<readonly [count: number, last: number]> =>
  JSON.parse(
    (await page.evaluate(`JSON.stringify([
      parseInt(document.querySelector('.tab-body [role=status]').textContent.replace(/,/g, '')),
      Number([...document.querySelectorAll('.log-line')].at(-1)?.textContent.replace('line ', '') ?? 0),
    ])`)) as string,
  );

/** Kills the server while pages are open, and starts it again. */
export function serverDeath(stage: () => ConsoleStage): void {
  it('resumes tables, logs and terminals after the server was killed, and loses no change and no line', async () => {
    const { cluster, browser, page } = stage();
    await cluster.kubectl.run(['create', '-f', '-'], { input: JSON.stringify(counter) });
    await cluster.kubectl.run(['wait', '--for=condition=Ready', 'pod/counter', '--timeout=120s']);
    await stage().goTo('#/r/core/v1/configmaps?ns=default');
    await page.getByRole('grid').getByText('edited').waitFor();
    // its sessions are those of another process, which goes on
    await withConsole(browser, ['--kubeconfig', cluster.kubeconfig], async (view, origin) => {
      const open = async (hash: string): Promise<Page> => {
        const tab = await view.context.newPage();
        tab.setDefaultTimeout(120_000);
        await tab.goto(`${origin}/console/${hash}`);
        return tab;
      };
      const table = await open('#/r/core/v1/configmaps?ns=default');
      const grid = table.getByRole('grid');
      await grid.getByText('edited').waitFor();
      const logs = await open('#/o/core/v1/pods/default/counter/logs');
      await expect.poll(async () => (await countedLines(logs))[1]).toBeGreaterThan(3);
      const terminal = await open('#/o/core/v1/pods/default/counter/terminal');
      const connect = async () => {
        await terminal.getByRole('button', { name: 'Connect' }).click();
        await terminal.locator('.xterm-rows').getByText(/[#$]/).first().waitFor();
      };
      await connect();

      await cluster.kill9();
      await table.getByText(/reconnecting/).waitFor();
      await page.getByText(/reconnecting/).waitFor();
      await logs
        .getByText(/reconnecting/)
        .first()
        .waitFor();
      await terminal.getByText(/The session (failed|ended)/).waitFor();
      const [before] = await countedLines(logs);
      await cluster.up();
      await cluster.kubectl.run(['create', 'configmap', 'after-the-death']);

      await grid.getByText('after-the-death').waitFor();
      await grid.getByText('edited').waitFor();
      await table.getByText('Live', { exact: true }).waitFor();
      // a tab in the background does not scroll
      await logs.bringToFront();
      // no line was lost or repeated: their number is that of the last one
      await expect
        .poll(async () => {
          const [count, last] = await countedLines(logs);
          return { missing: last - count, isLater: last > before + 5 };
        })
        .toEqual({ missing: 0, isLater: true });
      await connect();
    });
    await page.getByText('The session has ended. Sign in again.').waitFor();
    await cluster.kubectl.run(['delete', 'pod', 'counter', '--wait=false']);
  });

  it('continues where it was after a new sign-in, which the killed server requires because sessions are not stored', async () => {
    const { page, user } = stage();
    const other = await user.context.newPage();
    await other.goto(`${stage().origin}/console/#/r/core/v1/secrets`);
    await other.getByLabel('Bearer token').waitFor();
    await page.goto(await stage().createLink());
    await page.getByRole('grid').getByText('after-the-death').waitFor();
    expect(page.url()).toMatch(/#\/r\/core\/v1\/configmaps\?ns=default$/);
    // the sign-in counts for all tabs
    await other.getByRole('heading', { level: 1, name: 'Secret' }).waitFor();
    await other.close();
  });
}
