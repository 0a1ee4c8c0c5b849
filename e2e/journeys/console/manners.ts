import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { accessibilityFaults, documentPage, openPage, type ObservedPage } from '../../harness/browser.ts';
import { keyboardFaults } from '../../harness/keyboard-walk.ts';
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
  ['managed fields', '#/o/core/v1/pods/default/hostile/fields', 'spec.'],
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

export const screens = [
  { width: 1280, dark: false },
  { width: 1280, dark: true },
  { width: 400, dark: false },
  { width: 400, dark: true },
];

/** Shows every view in both themes, also on a narrow screen. */
export function everyView(stage: () => ConsoleStage): void {
  onScreens(stage, (view, { width, dark }) => {
    for (const [name, hash, content, picture] of views)
      it(`${name} is accessible and fits`, async () => {
        const { page } = view();
        await page.goto(`${stage().origin}/console/${hash}`);
        await page.locator('main').getByText(content).first().waitFor();
        if (picture !== undefined && width > 1000) await documentPage(page, dark ? `${picture}-dark` : picture);
        await expectUsable(view(), width);
      });
  });
}

/** The same for the tabs of workloads, with what they show when they are used. */
export function everyTabOfWorkloads(stage: () => ConsoleStage): void {
  onScreens(stage, (view, { width }) => {
    const open = async (hash: string) => {
      await view().page.goto(`${stage().origin}/console/${hash}`);
      return view().page;
    };

    for (const [name, hash, content] of tabs)
      it(`${name} is accessible and fits`, async () => {
        const page = await open(hash);
        await page.locator('main').getByText(content).first().waitFor();
        await expectUsable(view(), width);
      });

    it('a comparison of revisions is accessible and fits', async () => {
      const page = await open('#/o/apps/v1/deployments/default/oversized/revisions');
      await page.getByRole('button', { name: 'Compare with the current revision' }).click();
      await page.locator('.diff-added').first().waitFor();
      await expectUsable(view(), width);
    });

    it('a terminal is accessible and fits', async () => {
      const page = await open('#/o/core/v1/pods/default/hostile/terminal');
      await page.getByRole('button', { name: 'Connect' }).waitFor();
      await expectUsable(view(), width);
      await page.getByRole('button', { name: 'Connect' }).click();
      await page.locator('.xterm-rows').getByText(/[#$]/).first().waitFor();
      expect(await accessibilityFaults(page)).toEqual([]);
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(width);
    });

    it('an edit and its difference are accessible and fit', async () => {
      const page = await open('#/o/apps/v1/deployments/default/oversized/yaml');
      await page.getByRole('button', { name: 'Edit' }).click();
      const editor = page.getByLabel('YAML of the object');
      await expectUsable(view(), width);
      await editor.fill((await editor.inputValue()).replace('cpu: 10m', 'cpu: 20m'));
      await page.getByRole('button', { name: 'Review changes' }).click();
      await page.locator('.diff-added').waitFor();
      await expectUsable(view(), width);
    });
  });
}

/** Runs tests on each screen, with a page of its own. */
export function onScreens(
  stage: () => ConsoleStage,
  tests: (view: () => ObservedPage, screen: (typeof screens)[number]) => void,
  chosen: readonly (typeof screens)[number][] = screens,
): void {
  describe.each([...chosen])('at $width px, dark: $dark', (screen) => {
    let view: ObservedPage;
    beforeAll(async () => {
      view = await openPage(stage().browser, screen);
      await view.page.goto(await stage().createLink());
      await view.page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
    });
    afterAll(() => view?.context.close());
    tests(() => view, screen);
  });
}

/** The view has no fault of accessibility, can be used with the keyboard, fits the screen, and broke no rule of the page. */
export async function expectUsable({ page, faults }: ObservedPage, width: number): Promise<void> {
  expect(await accessibilityFaults(page)).toEqual([]);
  expect(await keyboardFaults(page)).toEqual([]);
  expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(width);
  expect(faults).toEqual([]);
}
