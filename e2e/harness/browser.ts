import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { chromium, type Browser, type BrowserContext, type Page } from 'playwright-core';
import { root } from './oarlock.ts';
import { pictureFault } from './pictures/compare-pictures.ts';
import { decodePng } from './pictures/picture.ts';
import { viewContent } from './pictures/view-content.ts';
import { until } from './until.ts';

/** Debian's Chromium. */
export const chromiumFile = '/usr/bin/chromium';
/** Tests run as root, for which Chromium has no sandbox. */
export const chromiumArguments: readonly string[] = ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'];

/** Returns why tests in a browser cannot run; undefined if they can. */
export const browserMissing = (): string | undefined => (existsSync(chromiumFile) ? undefined : `${chromiumFile} is not installed`);

export const launchBrowser = (): Promise<Browser> => chromium.launch({ executablePath: chromiumFile, args: [...chromiumArguments] });

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
  readonly passes: number;
  readonly violations: readonly {
    readonly id: string;
    readonly nodes: readonly { readonly html: string; readonly failureSummary?: string }[];
  }[];
}

/** What axe checks: the rules of WCAG 2.2 AA, or of these those whose result depends on the colors. */
const checks = {
  all: "{ type: 'tag', values: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'] }",
  colors: "{ type: 'rule', values: ['color-contrast', 'link-in-text-block'] }",
} as const;

/** Returns the accessibility faults of a page (WCAG 2.2 AA), one line each; `colors` for a page in another theme that had none before. */
export async function accessibilityFaults(page: Page, checked: keyof typeof checks = 'all'): Promise<readonly string[]> {
  axeSource ??= readFile(require.resolve('axe-core/axe.min.js'), 'utf8');
  if ((await page.evaluate('typeof axe')) === 'undefined') await page.evaluate(await axeSource);
  // the elements that pass are most of a result, and of the time that it takes
  const { violations, passes } = (await page.evaluate(
    `axe.run(document, { runOnly: ${checks[checked]}, resultTypes: ['violations'] })
      .then(({ violations, passes }) => ({ violations, passes: passes.length }))`,
  )) as AxeResults;
  if (passes + violations.length === 0) throw new Error('axe checked nothing');
  return violations.flatMap(({ id, nodes }) =>
    nodes.map(({ html, failureSummary = '' }) => `${id}: ${html.slice(0, 200)} ${failureSummary}`),
  );
}

/**
 * Compares the page with its picture in the documentation, within a tolerance, when all its parts are loaded, and requires the texts of the view. With
 * `OARLOCK_WRITE_SCREENSHOTS=1`, writes the picture instead.
 * @throws Error if the page differs from the picture, if a text of the view is missing, or if a part of it still loads
 */
export async function documentPage(page: Page, name: string): Promise<void> {
  const path = join(root, 'docs', 'images', `${name}.png`);
  await page.evaluate(`document.querySelectorAll('.toast button').forEach((button) => button.click())`);
  await until(`the page shows the texts of docs/images/${name}.png`, async () => {
    const lines = await shownLines(page);
    const missing = (viewContent[name.replace(/-dark$/, '')] ?? []).filter((text) => !lines.some((line) => line.includes(text)));
    if (missing.length > 0) throw new Error(`it does not show ${missing.join(', ')}`);
    if (lines.includes('Loading')) throw new Error('a part of it still loads');
    return true;
  });
  const picture = await page.screenshot({ animations: 'disabled' });
  if (process.env['OARLOCK_WRITE_SCREENSHOTS'] === '1') return writeFile(path, picture);
  const fault = pictureFault(decodePng(await readFile(path)), decodePng(picture));
  if (fault !== undefined)
    throw new Error(
      `the page differs from docs/images/${name}.png: ${fault}. If that is intended, run the test with OARLOCK_WRITE_SCREENSHOTS=1`,
    );
}

/** Returns the lines of the page that are visible, as text or as the values of inputs. */
async function shownLines(page: Page): Promise<readonly string[]> {
  const visible = (await page.evaluate(
    `[document.body.innerText, ...[...document.querySelectorAll('input, textarea, select')].map((input) => input.value)].join('\\n')`,
  )) as string;
  return visible.split('\n').map((line) => line.trim());
}
