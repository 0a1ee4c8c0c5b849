import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import type { Browser, CDPSession, Page } from 'playwright-core';
import { openPage } from '../../harness/browser.ts';
import { PlainTab } from '../../harness/plain-tab.ts';

const types: Readonly<Record<string, string>> = { html: 'text/html', js: 'text/javascript', css: 'text/css', svg: 'image/svg+xml' };

/** Answers requests for files of the console from a folder of a built page, so that pages of two builds are measured with one server. */
export async function servePageFrom(page: Page, folder: string): Promise<void> {
  await page.route('**/console/**', async (route) => {
    const name = basename(new URL(route.request().url()).pathname);
    const file = join(folder, `${name === 'console' || name === '' ? 'index.html' : name}.gz`);
    if (!existsSync(file)) return route.continue();
    const { [basename(file, '.gz').split('.').at(-1) ?? '']: contentType = 'application/octet-stream' } = types;
    return route.fulfill({ contentType, body: gunzipSync(await readFile(file)) });
  });
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

/** Returns the times until the paints of some interactions with the table, in milliseconds. */
export async function interact(page: Page, interactions = 15): Promise<readonly number[]> {
  const times: number[] = [];
  for (let index = 0; index < interactions; index += 1)
    for (const step of steps) times.push(await untilPaint(page, step.replaceAll('INDEX', String(index))));
  return times;
}

/** A tab of its own process that shows the pods. */
export class PodsTab {
  readonly page: Page;
  readonly #session: CDPSession;
  readonly firstPaint: number;
  readonly firstRows: number;
  readonly allRows: number;

  private constructor(
    page: Page,
    session: CDPSession,
    times: { readonly firstPaint: number; readonly firstRows: number; readonly allRows: number },
  ) {
    this.page = page;
    this.#session = session;
    this.firstPaint = times.firstPaint;
    this.firstRows = times.firstRows;
    this.allRows = times.allRows;
  }

  /** Signs in, and measures how the table of all pods appears in a tab that has loaded nothing before. */
  static async open(
    browser: Browser,
    { link, folder, pods }: { readonly link: string; readonly folder?: string | undefined; readonly pods: number },
  ): Promise<PodsTab> {
    const { page } = await openPage(browser);
    if (folder !== undefined) await servePageFrom(page, folder);
    await page.goto(link);
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
    await page.goto('about:blank');
    await page.goto(`${new URL(link).origin}/console/#/r/core/v1/pods`);
    await page.getByRole('grid').getByText('big-').first().waitFor();
    const now = async () => (await page.evaluate('performance.now()')) as number;
    const firstRows = await now();
    const firstPaint = (await page.evaluate(`performance.getEntriesByName('first-contentful-paint')[0].startTime`)) as number;
    await page.getByText(`${pods.toLocaleString('en')} objects`).waitFor();
    const allRows = await now();
    const session = await page.context().newCDPSession(page);
    await session.send('Performance.enable');
    return new PodsTab(page, session, { firstPaint, firstRows, allRows });
  }

  /** Returns the memory of the page's scripts after a collection, in MiB. `PlainTab` measures that of the process. */
  async heapMiB(): Promise<number> {
    await this.#session.send('HeapProfiler.collectGarbage');
    const { metrics } = await this.#session.send('Performance.getMetrics');
    return (metrics.find(({ name }) => name === 'JSHeapUsedSize')?.value ?? 0) / 2 ** 20;
  }

  close(): Promise<void> {
    return this.page.context().close();
  }
}

/** Opens the table of all pods in a tab as a user has it, and waits until it has all rows. */
export async function openPlainPodsTab(
  browser: Browser,
  { link, pods }: { readonly link: string; readonly pods: number },
): Promise<PlainTab> {
  const tab = await PlainTab.open(browser);
  await tab.goTo(link);
  await tab.waitForText('Control plane');
  await tab.goTo('about:blank');
  await tab.goTo(`${new URL(link).origin}/console/#/r/core/v1/pods`);
  await tab.waitForText(`${pods.toLocaleString('en')} objects`);
  return tab;
}
