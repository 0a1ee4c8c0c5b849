import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { accessibilityFaults, documentPage, openPage, type ObservedPage } from '../../harness/browser.ts';
import { keyboardFaults } from '../../harness/keyboard-walk.ts';
import { longestName } from './resources.ts';
import type { ConsoleStage } from './stage.ts';

/** Uses the keyboard alone, and another user. */
export function manners(stage: () => ConsoleStage): void {
  it('is used with the keyboard alone', async () => {
    await stage().keys('g', 'p', 'Pod');
    await stage().page.getByRole('grid').getByText('hostile').waitFor();
    await stage().page.keyboard.press('f');
    await stage().page.keyboard.type('hostile');
    await stage().page.getByText('1 of').waitFor();
    await stage().page.getByRole('grid').focus();
    await stage().page.keyboard.press('ArrowDown');
    await stage().page.keyboard.press('Enter');
    await stage().heading(/hostile/);
    await stage().page.locator('main').focus();
    await stage().page.keyboard.press('?');
    await stage().page.getByRole('dialog', { name: 'Keyboard shortcuts' }).waitFor();
    expect(await accessibilityFaults(stage().page)).toEqual([]);
    await stage().page.keyboard.press('Escape');
    await stage().page.keyboard.press('/');
    await stage().page.getByRole('combobox', { name: 'Search resources and views' }).fill('deploy');
    expect(await accessibilityFaults(stage().page)).toEqual([]);
    await stage().page.keyboard.press('Enter');
    await stage().heading('Deployment');
  });

  it('views the cluster as another user, with the permissions of this user', async () => {
    await stage().page.getByRole('button', { name: 'View as…' }).click();
    await stage().page.getByLabel('User', { exact: true }).fill('nobody');
    await stage().page.getByRole('button', { name: 'View', exact: true }).click();
    await stage().page.getByText('Viewing as nobody').waitFor();
    await stage()
      .page.getByText(/Not available.*User "nobody" cannot list/)
      .waitFor();
    expect(await accessibilityFaults(stage().page)).toEqual([]);
    await stage().page.getByRole('button', { name: 'Stop' }).click();
    await stage().page.getByRole('grid').getByText('hello').first().waitFor();
  });

  it('views the cluster as a user of several groups, which browsers send in one line', async () => {
    await stage().page.getByRole('button', { name: 'View as…' }).click();
    await stage().page.getByLabel('User', { exact: true }).fill('somebody');
    await stage().page.getByLabel('Groups, separated by commas').fill('developers, system:masters');
    await stage().page.getByRole('button', { name: 'View', exact: true }).click();
    await stage().page.getByText('Viewing as somebody').waitFor();
    await stage().page.getByRole('grid').getByText('hello').first().waitFor();
    await stage().page.getByRole('button', { name: 'Stop' }).click();
  });
}

/** A view: what it is, its address, and a text of its content. */
type ViewCase = readonly [name: string, hash: string, content: string, picture?: string];

const views: readonly ViewCase[] = [
  ['the overview', '#/', 'Recent events', 'console-overview'],
  ['the resources', '#/resources', 'ConfigMap', 'console-resources'],
  ['a table', '#/r/core/v1/pods', 'hostile', 'console-table'],
  ['a page of an object', '#/o/core/v1/pods/default/hostile', 'Conditions'],
  ['YAML', '#/o/core/v1/pods/default/hostile/yaml', 'Edit'],
  ['events', '#/o/core/v1/pods/default/hostile/events', 'Started'],
  ['logs', '#/o/core/v1/pods/default/hostile/logs', '1 line'],
  ['managed fields of an object with a long name', `#/o/example.com/v1/gadgets/default/${longestName}/fields`, 'spec.'],
  ['the topology', '#/topology', 'What if this node is lost?'],
  ['the flow of Services', '#/topology/services', 'ClusterIP'],
  ['changes', '#/o/core/v1/pods/default/hostile/changes', 'The object was created'],
  ['why a request is denied', '#/why/access?verb=list&target=pods', 'Rules of the user'],
  ['why traffic is denied', '#/why/traffic', 'Who may connect to whom'],
  ['traces', '#/traces', 'Slowest of the last 100 rollouts'],
  ['a plugin', '#/plugins/role/apiserver', 'apiserver_request_duration_seconds'],
  ['creation', '#/create', 'Check'],
];

/** Views of the Deployment `oversized`, which has two revisions, and of a pod that runs. */
const tabs: readonly ViewCase[] = [
  ['scheduling', '#/o/core/v1/pods/default/hostile/scheduling', 'What if the pod or the nodes were different?'],
  ['a summary', '#/o/apps/v1/deployments/default/oversized', 'The rollout is complete'],
  ['a trace', '#/o/apps/v1/deployments/default/oversized/trace', 'Critical path'],
  ['revisions', '#/o/apps/v1/deployments/default/oversized/revisions', 'Revision 2 (current)'],
];

/** What views are used on. */
const screens = [
  { width: 1280, dark: false },
  { width: 1280, dark: true },
  { width: 400, dark: false },
  { width: 400, dark: true },
];
const [desktop] = screens as [Screen];
type Screen = (typeof screens)[number];

/** Shows every view in both themes, also on a narrow screen. */
export function everyView(stage: () => ConsoleStage): void {
  onEveryScreen(stage, 'every view', (view, open) => {
    for (const [name, hash, content, picture] of views)
      it(`${name} is accessible and fits`, async () => {
        const page = await open(hash);
        await page.locator('main').getByText(content).first().waitFor();
        if (picture !== undefined) {
          await documentPage(page, picture);
          await showOn(page, { ...desktop, dark: true });
          await documentPage(page, `${picture}-dark`);
        }
        await expectUsable(view());
      });
  });
}

/** The same for the tabs of workloads, with what they show when they are used. */
export function everyTabOfWorkloads(stage: () => ConsoleStage): void {
  onEveryScreen(stage, 'every tab', (view, open) => {
    for (const [name, hash, content] of tabs)
      it(`${name} is accessible and fits`, async () => {
        const page = await open(hash);
        await page.locator('main').getByText(content).first().waitFor();
        await expectUsable(view());
      });

    it('a comparison of revisions is accessible and fits', async () => {
      const page = await open('#/o/apps/v1/deployments/default/oversized/revisions');
      await page.getByRole('button', { name: 'Compare with the current revision' }).click();
      await page.locator('.diff-added').first().waitFor();
      await expectUsable(view());
    });

    it('a terminal is accessible and fits, and reports its new size to the program', async () => {
      const page = await open('#/o/core/v1/pods/default/hostile/terminal');
      await page.getByRole('button', { name: 'Connect' }).waitFor();
      await expectUsable(view());
      await showOn(page, desktop);
      await page.getByRole('button', { name: 'Connect' }).click();
      const screen = page.locator('.xterm-rows');
      await screen.getByText(/[#$]/).first().waitFor();
      const columns = async () => {
        await page.keyboard.type(`echo columns-$(stty size | cut -d ' ' -f 2)-end\n`);
        return Number([...((await screen.textContent()) ?? '').matchAll(/columns-(\d+)-end/g)].at(-1)?.[1] ?? 0);
      };
      await expect.poll(columns).toBeGreaterThan(80);
      await showOn(page, { ...desktop, width: 400 });
      await expect.poll(async () => ((at) => at > 0 && at < 60)(await columns())).toBe(true);
      expect(await accessibilityFaults(page)).toEqual([]);
      await expect.poll(() => overflow(page)).toBe(0);
    });

    it('an edit and its difference are accessible and fit', async () => {
      const page = await open('#/o/apps/v1/deployments/default/oversized/yaml');
      await page.getByRole('button', { name: 'Edit' }).click();
      const editor = page.getByLabel('YAML of the object');
      await expectUsable(view());
      await editor.fill((await editor.inputValue()).replace('cpu: 10m', 'cpu: 20m'));
      await page.getByRole('button', { name: 'Review changes' }).click();
      await page.locator('.diff-added').waitFor();
      await expectUsable(view());
    });
  });
}

/** Changes the screen of a page, which adapts to it. */
async function showOn(page: Page, { width, dark }: Screen): Promise<void> {
  await page.setViewportSize({ width, height: 800 });
  await page.emulateMedia({ colorScheme: dark ? 'dark' : 'light' });
}

/** Runs tests with a page of their own. Its function `open` opens an address on a desktop. */
export function onEveryScreen(
  stage: () => ConsoleStage,
  what: string,
  tests: (view: () => ObservedPage, open: (hash: string) => Promise<Page>) => void,
): void {
  describe(`${what} on every screen`, () => {
    let view: ObservedPage;
    beforeAll(async () => {
      view = await openPage(stage().browser);
      await view.page.goto(await stage().createLink());
      await view.page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
    });
    afterAll(() => view?.context.close());
    tests(
      () => view,
      async (hash) => {
        await showOn(view.page, desktop);
        await view.page.goto(`${stage().origin}/console/${hash}`);
        return view.page;
      },
    );
  });
}

/** Returns by how many pixels the page scrolls sideways, which only a table, a drawing or a text within it may. */
const overflow = (page: Page): Promise<unknown> =>
  page.evaluate(
    `Math.max(...[document.documentElement, document.querySelector('main')].map((each) => each.scrollWidth - each.clientWidth))`,
  );

/** On every screen, the view has no fault of accessibility, can be used with the keyboard, and fits; and it broke no rule of the page. */
export async function expectUsable({ page, faults }: ObservedPage): Promise<void> {
  for (const screen of screens) {
    await showOn(page, screen);
    // a theme changes colors only
    expect({ screen, faults: await accessibilityFaults(page, screen.dark ? 'colors' : 'all') }).toEqual({ screen, faults: [] });
    if (screen.dark) continue;
    expect({ screen, faults: await keyboardFaults(page) }).toEqual({ screen, faults: [] });
    await expect.poll(() => overflow(page)).toBe(0);
  }
  expect(faults).toEqual([]);
}
