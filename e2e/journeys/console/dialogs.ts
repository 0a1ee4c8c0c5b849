import type { Page } from 'playwright-core';
import { expect, it } from 'vitest';
import { accessibilityFaults } from '../../harness/browser.ts';
import { expectUsable, onEveryScreen } from './manners.ts';
import type { ConsoleStage } from './stage.ts';

/** A dialog: the view and the button that open it, its title, and what has the focus first. */
interface DialogCase {
  readonly title: string;
  readonly hash: string;
  readonly button: string;
  readonly focused: string;
  /** A text of its content, if that is loaded after the dialog was opened. */
  readonly content?: string;
}

const deployment = '#/o/apps/v1/deployments/default/oversized';
const pod = '#/o/core/v1/pods/default/hostile';

const dialogs: readonly DialogCase[] = [
  { title: 'Keyboard shortcuts', hash: '#/', button: 'Help ?', focused: 'Close' },
  { title: 'Search resources and views', hash: '#/', button: 'Search /', focused: 'Search resources and views' },
  { title: 'View as another user', hash: '#/', button: 'View as…', focused: 'User' },
  { title: 'Scale oversized', hash: deployment, button: 'Scale', focused: 'Replicas' },
  { title: 'Delete oversized?', hash: deployment, button: 'Delete', focused: 'Close', content: 'owned objects are known' },
  { title: 'Port forward', hash: deployment, button: 'Port forward', focused: 'Close' },
  { title: 'Add an ephemeral debug container', hash: pod, button: 'Debug container', focused: 'Image' },
  { title: 'If node', hash: '#/topology', button: 'What if this node is lost?', focused: 'Close', content: 'Outcome' },
];

const focusedName = (page: Page) =>
  page.evaluate(`(() => {
    const { activeElement: element } = document;
    return element.getAttribute('aria-label') ?? (element.labels?.[0]?.innerText ?? element.innerText).replace(/\\s+/g, ' ').trim();
  })()`);

/** Opens every dialog with the keyboard, and the views whose steps replace each other. */
export function everyDialog(stage: () => ConsoleStage): void {
  onEveryScreen(stage, 'every dialog', (view, open) => {
    it.each(dialogs)('the dialog $title gets the focus, keeps it, and gives it back at Escape', async (each) => {
      const page = await open(each.hash);
      const opener = page.getByRole('button', { name: each.button, exact: true }).first();
      await opener.focus();
      await page.keyboard.press('Enter');
      const dialog = page.getByRole('dialog', { name: each.title });
      await dialog.waitFor();
      expect(await focusedName(page)).toBe(each.focused);
      if (each.content !== undefined) await dialog.getByText(each.content).first().waitFor();
      await expectUsable(view());
      await page.keyboard.press('Escape');
      await dialog.waitFor({ state: 'detached' });
      await expect.poll(() => focusedName(page)).toBe(each.button);
    });

    it('an edit, its difference, a conflict, a rollback, a restart and a creation keep the focus at what comes next', async () => {
      const page = await open(`${deployment}/yaml`);
      const focused = (name: string) => expect.poll(() => focusedName(page)).toBe(name);
      const press = async (role: 'button' | 'link', name: string) => {
        await page.getByRole(role, { name, exact: true }).first().focus();
        await page.keyboard.press('Enter');
      };
      const [edited, result] = ['YAML of the object', 'Result of a dry run on the server, compared with the current object'];
      const check = async () => {
        const answer = page.waitForResponse((response) => response.request().method() === 'PUT');
        await page.keyboard.press('Control+Enter');
        await answer;
      };
      /** Takes the step of what has the focus until a name has it: a rollout can change the object again, which is another conflict. */
      const reach = (name: string, steps: Readonly<Record<string, () => Promise<void>>>) =>
        expect
          .poll(async () => {
            await steps[(await focusedName(page)) as string]?.();
            return focusedName(page);
          })
          .toBe(name);
      await press('button', 'Edit');
      await focused(edited);
      const editor = page.getByLabel(edited);
      const grace = /terminationGracePeriodSeconds: \d+/;
      await editor.fill((await editor.inputValue()).replace(grace, 'terminationGracePeriodSeconds: 40'));
      await stage().cluster.kubectl.run(['annotate', 'deployment', 'oversized', 'conflict=true', '--overwrite']);
      await check();
      await page.getByRole('alert').getByText('The object was changed meanwhile').waitFor();
      await focused(edited);
      expect(await accessibilityFaults(page)).toEqual([]);
      await reach(result, { [edited]: check });
      await page.keyboard.press('Escape');
      await focused(edited);
      await reach('Edit', { [edited]: check, [result]: () => press('button', 'Apply') });
      await press('link', 'Revisions');
      await focused('Revisions');
      await press('button', 'Roll back');
      await page.getByText('Rolled back to revision').waitFor();
      expect(await page.evaluate('document.activeElement.className')).toBe('revisions');
      await press('button', 'Restart');
      await page.getByText('The rollout has been restarted').waitFor();
      await focused('Restart');
      await press('link', 'Create from YAML');
      await page.getByLabel('YAML documents').fill('apiVersion: v1\nkind: ConfigMap\nmetadata: { name: typed }\n');
      await press('button', 'Apply');
      await page.getByRole('link', { name: 'ConfigMap typed' }).waitFor();
      await focused('Apply');
    });
  });
}
