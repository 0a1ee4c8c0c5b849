import { expect, it } from 'vitest';
import type { ConsoleStage } from './stage.ts';

/** Two samples, one minute after the other, and the time in which a busy machine takes them. */
const patienceMs = 300_000;

/** Opens the overview in another tab, whose page has taken no samples yet. */
export function history(stage: () => ConsoleStage): void {
  it('plots the last hour of the control plane and of the nodes on a page that was just opened', { timeout: 2 * patienceMs }, async () => {
    const { page } = stage();
    await stage().goTo('#/');
    const plots = page.locator('.spark');
    await expect
      .poll(
        async () => {
          await page.reload();
          await page.getByText(/checks pass/).waitFor();
          await page.getByText('Stored objects').waitFor();
          return plots.evaluateAll((all) => all.map((plot) => plot.getAttribute('aria-label')?.split(':')[0]));
        },
        { timeout: patienceMs, interval: 5_000 },
      )
      .toEqual(expect.arrayContaining(['Watches', 'Stored objects']));
  });
}
