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
    await stage().goTo('#/');
    await stage().page.getByRole('link', { name: 'Create the first from YAML' }).click();
    await stage().heading('Create from YAML');
    const editor = stage().page.getByLabel('YAML documents');
    await editor.click();
    await stage().page.keyboard.type('apiVersion: apps/v1\nkind: Deployment\nspec:\nsel');
    const options = stage().page.getByRole('listbox', { name: 'Suggestions' });
    await options.getByRole('option', { name: 'selector LabelSelector required' }).waitFor();
    await stage().page.keyboard.press('ArrowDown');
    await documentPage(stage().page, 'console-completion');
    expect(await accessibilityFaults(stage().page)).toEqual([]);
    await stage().page.keyboard.press('Enter');
    await stage().page.keyboard.press('Control+Space');
    await expect
      .poll(() => options.getByRole('option').allTextContents())
      .toEqual([expect.stringMatching(/^matchExpressions/), expect.stringMatching(/^matchLabels/)]);
    await stage().page.keyboard.press('ArrowUp');
    await stage().page.keyboard.press('Enter');
    expect(await editor.inputValue()).toBe('apiVersion: apps/v1\nkind: Deployment\nspec:\n  selector:\n    matchLabels:\n      ');
    await editor.fill(await readFile(join(root, 'examples', 'hello', 'hello.yaml'), 'utf8'));
    await documentPage(stage().page, 'console-create');
    await stage().page.getByRole('button', { name: 'Check' }).click();
    await stage().page.getByText('created').first().waitFor();
    expect(await stage().cluster.kubectl.run(['get', 'deployments', '-o', 'name'])).toBe('');
    await stage().page.getByRole('button', { name: 'Apply' }).click();
    await stage().page.getByRole('link', { name: 'Service hello' }).waitFor();
    await expect
      .poll(() => stage().page.evaluate(`document.querySelector('.results').getBoundingClientRect().bottom < innerHeight + 1`))
      .toBe(true);
    await stage().page.getByRole('link', { name: 'Deployment hello' }).click();
    await stage().page.getByText('The rollout is complete').waitFor();
    await expect.poll(() => stage().page.locator('.tree').first().getByText('Running', { exact: true }).count()).toBe(3);
    await stage().page.getByRole('link', { name: 'hello', exact: true }).waitFor();
    await documentPage(stage().page, 'console-workload');
  });

  it('shows the logs of all pods together', async () => {
    await stage().tab('Logs');
    // each probe adds a line, and lines above the view are not in the page
    await stage().page.getByLabel('Filter lines').fill('listens on');
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
    await stage().page.getByLabel('Filter lines').fill('listens on');
    await stage().page.getByLabel('Previous instance').check();
    await stage()
      .page.getByText(/previous terminated container .* not found/)
      .waitFor();
    await stage().page.getByLabel('Previous instance').uncheck();
    await stage().page.getByText('3 lines', { exact: true }).waitFor();
    await documentPage(stage().page, 'console-logs');
    const requested = stage().page.waitForRequest((request) => request.url().includes('sinceSeconds=3600'));
    await stage().page.getByLabel('Since').selectOption('1 hour');
    await requested;
    await stage().page.getByText('3 lines', { exact: true }).waitFor();
    await stage().page.getByLabel('Follow').uncheck();
    await stage()
      .page.getByText(/^3 lines · The log of .* ended/)
      .waitFor();
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
    await stage().cluster.kubectl.run(['create', 'ingress', 'hello-from-outside', '--rule=hello.example.com/*=hello:80']);
    const related = stage().page.getByRole('region', { name: 'Related objects' });
    await related.getByText('hello-from-outside').waitFor();
    await related.getByText('EndpointSlice').waitFor();
    await stage().cluster.kubectl.run(['delete', 'ingress', 'hello-from-outside']);
    const grace = ['get', 'deployment', 'hello', '-o', 'jsonpath={.spec.template.spec.terminationGracePeriodSeconds}'];
    expect(await stage().cluster.kubectl.run(grace)).toBe('30');
  });
}

/** Adds a debug container, and scales and restarts the Deployment. */
export function operateWorkload(stage: () => ConsoleStage): void {
  it('adds a debug container to a pod, and shows how to forward a port', async () => {
    const [pod = ''] = (
      await stage().cluster.kubectl.run(['get', 'pods', '-l', 'app=hello', '-o', 'jsonpath={.items[*].metadata.name}'])
    ).split(' ');
    await stage().goTo(`#/o/core/v1/pods/default/${pod}`);
    await stage().page.getByRole('button', { name: 'Port forward' }).click();
    await stage().page.getByText(`kubectl port-forward -n default pod/${pod} 8080:8080`).waitFor();
    expect(await stage().page.getByRole('link', { name: 'http://localhost:8080' }).getAttribute('rel')).toBe('noreferrer');
    expect(await accessibilityFaults(stage().page)).toEqual([]);
    await stage().page.keyboard.press('Escape');
    await stage().page.getByRole('button', { name: 'Debug container' }).click();
    await stage().page.getByLabel('Image').fill('host');
    await stage().page.getByRole('button', { name: 'Add', exact: true }).click();
    await stage().page.getByRole('button', { name: 'Connect' }).waitFor();
    const images = ['get', 'pod', pod, '-o', 'jsonpath={.spec.ephemeralContainers[*].image}'];
    expect(await stage().cluster.kubectl.run(images)).toBe('host');
  });

  it('scales and restarts a workload', async () => {
    await stage().goTo('#/o/apps/v1/deployments/default/hello/summary');
    await stage().page.getByRole('button', { name: 'Scale' }).click();
    const dialog = stage().page.getByRole('dialog', { name: 'Scale hello' });
    await dialog.getByLabel('Replicas').fill('2');
    await dialog.getByRole('button', { name: 'Scale' }).click();
    await stage().page.getByText('2 of 2 ready').waitFor();
    await stage().page.getByRole('button', { name: 'Restart' }).click();
    await stage().page.getByText('The rollout has been restarted').waitFor();
    await stage().tab('Revisions');
    await stage().page.getByText('Revision 4 (current)').waitFor();
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
