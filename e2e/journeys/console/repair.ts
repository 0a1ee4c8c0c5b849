import { expect, it } from 'vitest';
import { accessibilityFaults } from '../../harness/browser.ts';
import type { ConsoleStage } from './stage.ts';
import { podWithCpu } from './pod-with-cpu.ts';

/** A Deployment whose pods no machine can run. */
const manifest = `apiVersion: apps/v1
kind: Deployment
metadata: { name: oversized, namespace: default }
spec:
  selector: { matchLabels: { app: oversized } }
  template:
    metadata: { labels: { app: oversized } }
    spec:
      containers:
        - name: main
          image: host
          command: [sleep, '3600']
          resources: { requests: { cpu: 100k } }
`;

/** A pod that no machine can run, and that no workload owns. */
const pod = podWithCpu('100k');

/** Finds out why a Deployment has no running pod, and changes it there. */
export function repair(stage: () => ConsoleStage): void {
  it('shows why a pod without a workload is pending, and replaces it by one that fits', async () => {
    const { page } = stage();
    await stage().goTo('#/create');
    await page.getByLabel('YAML documents').fill(pod);
    await page.getByRole('button', { name: 'Apply' }).click();
    await page.getByRole('link', { name: 'Pod hundred' }).click();
    await page.getByRole('link', { name: /Insufficient cpu/ }).click();
    await page.getByText('NodeResourcesFit: Insufficient cpu').waitFor();
    await page.getByLabel('CPU request of the first container').fill('10m');
    await page.getByRole('button', { name: 'Evaluate' }).click();
    await page.getByRole('button', { name: 'Replace the pod with the changed one…' }).click();
    const dialog = page.getByRole('dialog', { name: 'Replace pod hundred?' });
    await dialog.locator('.diff-added').first().waitFor();
    expect(await dialog.locator('.diff-added').allTextContents()).toEqual([expect.stringMatching(/^\+ +cpu: 10m$/)]);
    expect(await accessibilityFaults(page)).toEqual([]);
    await dialog.getByRole('button', { name: 'Replace', exact: true }).click();
    await page.getByText(/The pod is on node/).waitFor();
    const request = ['get', 'pod', 'hundred', '-o', 'jsonpath={.spec.containers[0].resources.requests.cpu}'];
    expect(await stage().cluster.kubectl.run(request)).toBe('10m');
    await stage().cluster.kubectl.run(['delete', 'pod', 'hundred', '--wait=false']);
  });

  it('leads from a rollout that waits to the request that no node can satisfy, and completes when that is changed', async () => {
    const { page } = stage();
    await stage().goTo('#/create');
    await page.getByLabel('YAML documents').fill(manifest);
    await page.getByRole('button', { name: 'Apply' }).click();
    await page.getByRole('link', { name: 'Deployment oversized' }).click();
    await page.getByText('The rollout is in progress').waitFor();
    await page.getByRole('link', { name: /Insufficient cpu/ }).click();
    await stage().heading(/oversized-/);
    const verdicts = page.getByRole('region', { name: 'Verdict for each node' });
    await verdicts.getByText('NodeResourcesFit: Insufficient cpu').waitFor();
    await page.getByText('Change the pod template of').getByRole('link', { name: 'Deployment oversized' }).click();
    await page.getByRole('button', { name: 'Edit' }).click();
    const editor = page.getByLabel('YAML of the object');
    await editor.fill((await editor.inputValue()).replace('cpu: 100k', 'cpu: 10m'));
    await page.getByRole('button', { name: 'Review changes' }).click();
    await page.locator('.diff-added').waitFor();
    expect(await page.locator('.diff-added').allTextContents()).toEqual([expect.stringMatching(/^\+ +cpu: 10m$/)]);
    await page.getByRole('button', { name: 'Apply' }).click();
    await stage().tab('Summary');
    await page.getByText('The rollout is complete').waitFor();
    await page.locator('.tree').first().getByText('Running', { exact: true }).waitFor();
    await stage().tab('Trace');
    const steps = page.getByRole('region', { name: 'Steps of the trace' });
    // the kubelet's step can end after the rollout is complete, and nothing then changes the object
    await expect
      .poll(async () => {
        const answer = page.waitForResponse((response) => response.url().includes('/traces?'));
        await page.getByRole('button', { name: 'Load again', exact: true }).click();
        await answer;
        return steps.getByRole('rowheader', { name: /sync pod/ }).count();
      })
      .toBeGreaterThan(0);
  });
}
