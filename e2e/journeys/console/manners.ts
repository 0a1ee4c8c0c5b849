import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { accessibilityFaults, documentPage, openPage, type ObservedPage } from '../../harness/browser.ts';
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

/** Shows every view in both themes and on a narrow screen. */
export function everyView(stage: () => ConsoleStage): void {
  describe.each([
    { width: 1280, dark: false },
    { width: 1280, dark: true },
    { width: 400, dark: false },
  ])('at $width px, dark: $dark', ({ width, dark }) => {
    let view: ObservedPage;
    beforeAll(async () => {
      view = await openPage(stage().browser, { width, dark });
      await view.page.goto(await stage().createLink());
      await view.page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
    });
    afterAll(() => view?.context.close());

    it.each([
      ['the overview', '#/', 'Recent events', 'console-overview'],
      ['the resources', '#/resources', 'ConfigMap', 'console-resources'],
      ['a table', '#/r/core/v1/pods', 'hostile', 'console-table'],
      ['a page of an object', '#/o/core/v1/pods/default/hostile', 'Conditions', undefined],
      ['YAML', '#/o/core/v1/pods/default/hostile/yaml', 'Edit', undefined],
      ['events', '#/o/core/v1/pods/default/hostile/events', 'Started', undefined],
      ['logs', '#/o/core/v1/pods/default/hostile/logs', '1 line', undefined],
      ['managed fields', '#/o/core/v1/pods/default/hostile/fields', 'spec.', undefined],
      ['the topology', '#/topology', 'What if this node is lost?', undefined],
      ['the flow of Services', '#/topology/services', 'ClusterIP', undefined],
      ['changes', '#/o/core/v1/pods/default/hostile/changes', 'The object was created', undefined],
      ['why a request is denied', '#/why/access?verb=list&target=pods', 'Rules of the user', undefined],
      ['why traffic is denied', '#/why/traffic', 'Who may connect to whom', undefined],
      ['traces', '#/traces', 'Slowest of the last 100 rollouts', undefined],
      ['a plugin', '#/plugins/role/apiserver', 'apiserver_request_duration_seconds', undefined],
      ['creation', '#/create', 'Check', undefined],
    ])('%s is accessible and fits', async (_, hash, content, picture) => {
      await view.page.goto(`${stage().origin}/console/${hash}`);
      await view.page.locator('main').getByText(content).first().waitFor();
      if (picture !== undefined && width > 1000) await documentPage(view.page, dark ? `${picture}-dark` : picture);
      expect(await accessibilityFaults(view.page)).toEqual([]);
      expect(await view.page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(width);
      expect(view.faults).toEqual([]);
    });
  });
}
