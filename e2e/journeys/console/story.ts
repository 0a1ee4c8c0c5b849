import type { Page } from 'playwright-core';
import { until } from '../../harness/until.ts';
import { podWithCpu } from './pod-with-cpu.ts';

const hundred = podWithCpu('100');

/** Pastes a manifest into the view of creation, and applies it. */
async function paste(page: Page, manifest: string): Promise<void> {
  const editor = page.getByLabel('YAML documents');
  await editor.click();
  await page.keyboard.insertText(manifest);
  await page.getByRole('button', { name: 'Check' }).click();
  await page.getByText('created').first().waitFor();
  await page.getByRole('button', { name: 'Apply' }).click();
}

const openTab = (page: Page, name: string): Promise<void> => page.locator('nav.tabs').getByRole('link', { name, exact: true }).click();

/** Waits until the rollout is complete and no pod of the one before is left. */
async function rolledOut(page: Page, pods: number): Promise<void> {
  await page.getByText('The rollout is complete').waitFor();
  const running = page.locator('.tree').first().getByText('Running', { exact: true });
  await until(`${pods} pods run`, async () => (await running.count()) === pods);
}

/** Leads from a workload of the navigation to one of its objects. */
async function openDeployment(page: Page, name: string): Promise<void> {
  await page.getByRole('navigation', { name: 'Views' }).getByRole('link', { name: 'Deployments' }).click();
  await page.getByRole('grid').getByRole('link', { name, exact: true }).click();
  await page.getByRole('heading', { level: 1, name: new RegExp(name) }).waitFor();
}

/**
 * What a new user does with the link that `npm start` prints, by the page alone: deploys the example, finds out why a pod is pending and fixes it, changes the
 * example, and looks at the trace, the logs and a shell of it before it is rolled back.
 */
export async function story(page: Page, { link, example }: { readonly link: string; readonly example: string }): Promise<void> {
  await page.goto(link);
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
  await page.getByRole('link', { name: 'Create the first from YAML' }).click();
  await paste(page, example);
  await page.getByRole('link', { name: 'Deployment hello' }).click();
  await rolledOut(page, 3);

  await page.getByRole('navigation', { name: 'Views' }).getByRole('link', { name: 'Create from YAML' }).click();
  await paste(page, hundred);
  await page.getByRole('link', { name: 'Pod hundred' }).click();
  await page.getByRole('link', { name: /Insufficient cpu/ }).click();
  await page.getByText('NodeResourcesFit: Insufficient cpu').waitFor();
  await page.getByLabel('CPU request of the first container').fill('10m');
  await page.getByRole('button', { name: 'Evaluate' }).click();
  await page.getByRole('button', { name: 'Replace the pod with the changed one…' }).click();
  await page.getByRole('dialog', { name: 'Replace pod hundred?' }).getByRole('button', { name: 'Replace', exact: true }).click();
  await page.getByText(/The pod is on node/).waitFor();

  await openDeployment(page, 'hello');
  await openTab(page, 'YAML');
  await page.getByRole('button', { name: 'Edit' }).click();
  const editor = page.getByLabel('YAML of the object');
  await editor.fill((await editor.inputValue()).replace('listens on', 'is at'));
  await page.getByRole('button', { name: 'Review changes' }).click();
  await page.locator('.diff-added').getByText('is at').waitFor();
  await page.getByRole('button', { name: 'Apply' }).click();
  await openTab(page, 'Summary');
  await rolledOut(page, 3);

  await openTab(page, 'Trace');
  const steps = page.getByRole('region', { name: 'Steps of the trace' });
  await until('the trace has the steps from the edit to the pods', async () => {
    await page.getByRole('button', { name: 'Load again', exact: true }).click();
    await steps
      .getByRole('rowheader', { name: 'patch deployments.apps' })
      .or(steps.getByRole('rowheader', { name: 'update deployments.apps' }))
      .first()
      .waitFor();
    return (await steps.getByRole('rowheader', { name: /sync pod/ }).count()) > 0;
  });

  await openTab(page, 'Logs');
  await page.getByLabel('Filter lines').fill('is at 127.');
  const lines = page.getByRole('log').getByText(/hello-\S+ is at 127\./);
  await until('the logs of all pods are shown', async () => (await lines.count()) === 3);

  await openTab(page, 'Terminal');
  await page.getByRole('button', { name: 'Connect' }).click();
  await page.locator('.xterm-rows').getByText(/[#$]/).first().waitFor();
  await page.keyboard.type('echo $((40+2))-in-the-pod\n');
  await page.locator('.xterm-rows').getByText('42-in-the-pod').waitFor();
  await page.getByRole('button', { name: 'Disconnect' }).click();

  await openTab(page, 'Revisions');
  await page.getByRole('button', { name: 'Compare with the current revision' }).click();
  await page.locator('.diff-added').getByText('listens on').waitFor();
  await page.getByRole('button', { name: 'Roll back' }).click();
  await page.getByText('Revision 3 (current)').waitFor();
  await openTab(page, 'Summary');
  await rolledOut(page, 3);
  await openTab(page, 'YAML');
  await until('the YAML is that of the first revision', async () => (await editor.inputValue()).includes('listens on'));
}
