import type { Page } from 'playwright-core';
import { everyView } from '../../journeys/console/every-view.ts';
import type { Figure } from './statistics.ts';

/** Notes the turns of the page that take longer than 50 ms, which is what browsers report. */
const observeTurns = `
  window.turns = [];
  new PerformanceObserver((list) => window.turns.push(...list.getEntries().map(({ duration }) => duration))).observe({ type: 'longtask', buffered: false });
`;

/** Opens each view, and returns the time until it shows its content, and the longest turn of the page until the view is at rest. */
export async function openViews(page: Page, pod: string): Promise<readonly Figure[]> {
  const figures: Figure[] = [];
  const { origin } = new URL(page.url());
  for (const [what, hash, content] of everyView({ deployment: 'big', pod, node: 'sim-1' })) {
    await page.goto(`${origin}/console/#/resources`);
    await page.locator('main').getByText('ConfigMap').first().waitFor();
    await page.evaluate(observeTurns);
    const began = performance.now();
    await page.evaluate(`location.hash = ${JSON.stringify(hash)}`);
    await page.locator('main').getByText(content).first().waitFor();
    figures.push({ what: `view: ${what}`, value: performance.now() - began, unit: 'ms' });
    await page.waitForTimeout(restMs);
    figures.push({
      what: '  longest turn of the page',
      value: (await page.evaluate('Math.max(0, ...window.turns)')) as number,
      unit: 'ms',
    });
  }
  return figures;
}

/** Time in which a view loads the rest of its content. */
const restMs = 4_000;
