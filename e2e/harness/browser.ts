import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { chromium, type Browser, type BrowserContext, type Page } from 'playwright-core';
import { root } from './oarlock.ts';

const executable = '/usr/bin/chromium';

/** Returns why tests in a browser cannot run; undefined if they can. */
export const browserMissing = (): string | undefined => (existsSync(executable) ? undefined : `${executable} is not installed`);

/** Starts Debian's Chromium. Tests run as root, for which Chromium has no sandbox. */
export const launchBrowser = (): Promise<Browser> =>
  chromium.launch({ executablePath: executable, args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'] });

/** A page, and everything in it that a user would see as a fault. */
export interface ObservedPage {
  readonly context: BrowserContext;
  readonly page: Page;
  /** Uncaught errors, violations of the content security policy, and dialogs that scripts opened. */
  readonly faults: string[];
}

/** Opens a page of a context of its own, which has no cookies. */
export async function openPage(
  browser: Browser,
  options: { readonly width?: number; readonly dark?: boolean } = {},
): Promise<ObservedPage> {
  const { width = 1280, dark = false } = options;
  const context = await browser.newContext({
    ignoreHTTPSErrors: true,
    viewport: { width, height: 800 },
    colorScheme: dark ? 'dark' : 'light',
  });
  const page = await context.newPage();
  page.setDefaultTimeout(120_000);
  const faults: string[] = [];
  page.on('pageerror', (error) => faults.push(String(error)));
  page.on('dialog', (dialog) => {
    faults.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on('console', (message) => {
    if (/Content Security Policy|TrustedHTML|TrustedScript/.test(message.text())) faults.push(message.text());
  });
  return { context, page, faults };
}

const require = createRequire(import.meta.url);
let axeSource: Promise<string> | undefined;

interface AxeResults {
  readonly passes: readonly unknown[];
  readonly violations: readonly {
    readonly id: string;
    readonly nodes: readonly { readonly html: string; readonly failureSummary?: string }[];
  }[];
}

/** Returns the accessibility faults of a page (WCAG 2.2 AA), one line each. */
export async function accessibilityFaults(page: Page): Promise<readonly string[]> {
  axeSource ??= readFile(require.resolve('axe-core/axe.min.js'), 'utf8');
  await page.evaluate(await axeSource);
  const { violations, passes } = (await page.evaluate(
    `axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'], resultTypes: ['violations', 'passes'] })`,
  )) as AxeResults;
  if (passes.length === 0) throw new Error('axe checked nothing');
  return violations.flatMap(({ id, nodes }) =>
    nodes.map(({ html, failureSummary = '' }) => `${id}: ${html.slice(0, 200)} ${failureSummary}`),
  );
}

/** Blocks of a picture of which the mean color is compared: names, ages and addresses differ in each run, and fonts on each machine. */
const blocks = { columns: 32, rows: 20 };
/** The difference of a color channel, of 255, from which a block counts as different. */
const minBlockDifference = 10;
/** The part of the blocks that may differ. Another theme, an empty view or a broken layout differs in more. */
const maxDifferentBlocks = 0.3;

/** Returns the part of the blocks in which two pictures differ. */
async function pictureDifference(browser: Browser, pictures: readonly Buffer[]): Promise<number> {
  const context = await browser.newContext();
  try {
    const page = await context.newPage();
    return (await page.evaluate(`(async () => {
      const { columns, rows } = ${JSON.stringify(blocks)};
      const colors = async (base64) => {
        const image = new Image();
        image.src = 'data:image/png;base64,' + base64;
        await image.decode();
        const canvas = new OffscreenCanvas(columns, rows).getContext('2d');
        canvas.imageSmoothingQuality = 'high';
        canvas.drawImage(image, 0, 0, columns, rows);
        return canvas.getImageData(0, 0, columns, rows).data;
      };
      const [a, b] = await Promise.all(${JSON.stringify(pictures.map((picture) => picture.toString('base64')))}.map(colors));
      let different = 0;
      for (let at = 0; at < a.length; at += 4)
        if ([0, 1, 2].some((channel) => Math.abs(a[at + channel] - b[at + channel]) > ${minBlockDifference})) different += 1;
      return different / (columns * rows);
    })()`)) as number;
  } finally {
    await context.close();
  }
}

/**
 * Compares the page with its picture in the documentation, within a tolerance. With `OARLOCK_WRITE_SCREENSHOTS=1`, writes the picture instead.
 * @throws Error if the page differs from the picture
 */
export async function documentPage(page: Page, name: string): Promise<void> {
  const path = join(root, 'docs', 'images', `${name}.png`);
  await page.evaluate(`document.querySelectorAll('.toast button').forEach((button) => button.click())`);
  const picture = await page.screenshot({ animations: 'disabled' });
  if (process.env['OARLOCK_WRITE_SCREENSHOTS'] === '1') return writeFile(path, picture);
  const browser = page.context().browser();
  if (browser === null) throw new Error('the page has no browser');
  const difference = await pictureDifference(browser, [await readFile(path), picture]);
  if (difference > maxDifferentBlocks)
    throw new Error(
      `the page differs from docs/images/${name}.png in ${Math.round(100 * difference)} % of its area: if that is intended, run the test with OARLOCK_WRITE_SCREENSHOTS=1`,
    );
}
