import type { Browser, Page } from 'playwright-core';
import { launchBrowser, openPage, type ObservedPage } from '../../harness/browser.ts';
import type { Cluster } from '../../harness/cluster.ts';
import { until } from '../../harness/until.ts';

/** The one cluster and the signed-in page that all steps of the journey use, one after the other. */
export class ConsoleStage {
  readonly cluster: Cluster;
  readonly browser: Browser;
  readonly user: ObservedPage;

  private constructor(cluster: Cluster, browser: Browser, user: ObservedPage) {
    this.cluster = cluster;
    this.browser = browser;
    this.user = user;
  }

  static async open(cluster: Cluster): Promise<ConsoleStage> {
    const browser = await launchBrowser();
    return new ConsoleStage(cluster, browser, await openPage(browser));
  }

  get page(): Page {
    return this.user.page;
  }

  get origin(): string {
    return `https://127.0.0.1:${this.cluster.port}`;
  }

  /** Opens an address of the page, such as `#/topology`. */
  goTo(hash: string): Promise<void> {
    return this.open(`${this.origin}/console/${hash}`);
  }

  /** Opens a URL. Chromium ends a load, or shows its own page instead, when the machine gets or loses an interface, as by a pod of another test: then it loads again. */
  async open(url: string): Promise<void> {
    await until(`the browser opens ${url}`, () => this.page.goto(url).then(() => true));
  }

  /** Opens a tab of an object. */
  tab(name: string): Promise<void> {
    return this.page.locator('nav.tabs').getByRole('link', { name, exact: true }).click();
  }

  /** Presses two keys of a sequence, again if the browser was too slow for its time limit, until the heading of a view appears. */
  async keys(first: string, second: string, heading: string): Promise<void> {
    await until(`${first} ${second} shows ${heading}`, async () => {
      await this.page.keyboard.press(first);
      await this.page.keyboard.press(second);
      return this.page
        .getByRole('heading', { level: 1, name: heading })
        .waitFor({ timeout: 5_000 })
        .then(() => true);
    });
  }

  heading(name: string | RegExp): Promise<void> {
    return this.page.getByRole('heading', { level: 1, name }).waitFor();
  }

  /** Returns a new sign-in link. */
  async createLink(): Promise<string> {
    const { code, stdout, stderr } = await this.cluster.oarlock('console');
    if (code !== 0) throw new Error(stderr);
    return stdout.trim();
  }

  /** The sign-in link that `oarlock up` printed. */
  get printedLink(): string {
    return /Console: (https:\S+)/.exec(this.cluster.daemon.output)?.[1] ?? '';
  }

  close(): Promise<void> {
    return this.browser.close();
  }
}

/** Markup that must have no effect, as the name or the content of something. */
export const markup = '<img src=x onerror="window.attacked = 1"><script>window.attacked = 1</script>';
