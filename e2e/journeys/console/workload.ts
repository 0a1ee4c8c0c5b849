import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { accessibilityFaults, documentPage } from '../../harness/browser.ts';
import { root } from '../../harness/oarlock.ts';
import type { ConsoleStage } from './stage.ts';

/** Deploys the example, and reads its logs. */
export function deploy(stage: () => ConsoleStage): void {
  it('deploys the example from pasted YAML, and shows that it becomes ready', async () => {
    await stage().page.keyboard.press('c');
    await stage().heading('Create from YAML');
    await stage()
      .page.getByLabel('YAML documents')
      .fill(await readFile(join(root, 'examples', 'hello', 'hello.yaml'), 'utf8'));
    await documentPage(stage().page, 'console-create');
    await stage().page.getByRole('button', { name: 'Check' }).click();
    await stage().page.getByText('created').first().waitFor();
    expect(await stage().cluster.kubectl.run(['get', 'deployments', '-o', 'name'])).toBe('');
    await stage().page.getByRole('button', { name: 'Apply' }).click();
    await stage().page.getByRole('link', { name: 'Deployment hello' }).click();
    await stage().page.getByText('The rollout is complete').waitFor();
    await expect.poll(() => stage().page.locator('.tree').first().getByText('Running', { exact: true }).count()).toBe(3);
    await stage().page.getByRole('link', { name: 'hello', exact: true }).waitFor();
    await documentPage(stage().page, 'console-workload');
  });

  it('shows the logs of all pods together', async () => {
    await stage().tab('Logs');
    await expect
      .poll(() =>
        stage()
          .page.getByRole('log')
          .getByText(/listens on 127\./)
          .count(),
      )
      .toBe(3);
    await stage().page.getByLabel('Filter lines').fill('no such line');
    await stage().page.getByText('0 lines').waitFor();
    await stage().page.getByLabel('Filter lines').fill('');
    await documentPage(stage().page, 'console-logs');
  });
}

/** Opens a terminal, edits the Deployment and rolls it back. */
export function changeWorkload(stage: () => ConsoleStage): void {
  it('opens a terminal in a container', async () => {
    await stage().tab('Terminal');
    await stage().page.getByRole('button', { name: 'Connect' }).click();
    await stage().page.locator('.xterm-rows').getByText(/[#$]/).first().waitFor();
    await stage().page.keyboard.type('echo $((40+2))-in-the-pod\n');
    await stage().page.locator('.xterm-rows').getByText('42-in-the-pod').waitFor();
    await documentPage(stage().page, 'console-terminal');
    expect(await accessibilityFaults(stage().page)).toEqual([]);
    await stage().page.keyboard.press('Escape');
    await stage().page.keyboard.press('Escape');
    await expect.poll(() => stage().page.evaluate('document.activeElement.textContent')).toBe('Disconnect');
  });

  it('shows the difference of an edit before it is applied, and rolls back', async () => {
    await stage().tab('YAML');
    await stage().page.getByRole('button', { name: 'Edit' }).click();
    const editor = stage().page.getByLabel('YAML of the object');
    await editor.fill((await editor.inputValue()).replace('terminationGracePeriodSeconds: 30', 'terminationGracePeriodSeconds: 2'));
    await stage().page.getByRole('button', { name: 'Review changes' }).click();
    await stage().page.locator('.diff-added').waitFor();
    expect(await stage().page.locator('.diff-added').allTextContents()).toEqual([
      expect.stringMatching(/^\+ +terminationGracePeriodSeconds: 2$/),
    ]);
    expect(await stage().page.locator('.diff-removed').allTextContents()).toEqual([
      expect.stringMatching(/^- +terminationGracePeriodSeconds: 30$/),
    ]);
    await documentPage(stage().page, 'console-edit');
    expect(await accessibilityFaults(stage().page)).toEqual([]);
    await stage().page.getByRole('button', { name: 'Apply' }).click();
    await stage().tab('Revisions');
    await stage().page.getByText('Revision 2 (current)').waitFor();
    await stage().page.getByRole('button', { name: 'Compare with the current revision' }).click();
    await stage().page.locator('.diff-added').getByText('terminationGracePeriodSeconds: 30').waitFor();
    await documentPage(stage().page, 'console-revisions');
    expect(await accessibilityFaults(stage().page)).toEqual([]);
    await stage().page.getByRole('button', { name: 'Roll back' }).click();
    await stage().page.getByText('Revision 3 (current)').waitFor();
    await stage().tab('Summary');
    await stage().page.getByText('The rollout is complete').waitFor();
    const grace = ['get', 'deployment', 'hello', '-o', 'jsonpath={.spec.template.spec.terminationGracePeriodSeconds}'];
    expect(await stage().cluster.kubectl.run(grace)).toBe('30');
  });
}

/** Deletes the Deployment. */
export function deleteWorkload(stage: () => ConsoleStage): void {
  it('deletes an object after it has shown what happens to the objects that it owns', async () => {
    await stage().goTo('#/o/apps/v1/deployments/default/hello');
    await stage().page.getByRole('button', { name: 'Delete' }).click();
    const dialog = stage().page.getByRole('dialog', { name: 'Delete hello?' });
    await dialog.getByText(/owned objects are known/).waitFor();
    expect(await accessibilityFaults(stage().page)).toEqual([]);
    await dialog.getByRole('button', { name: 'Delete' }).click();
    await stage().heading('Deployment');
    await expect.poll(() => stage().cluster.kubectl.run(['get', 'deployments', '-o', 'name'])).toBe('');
  });
}
