import type { Page } from 'playwright-core';
import type { Figure } from './statistics.ts';

/** The views of the console on a cluster with a Deployment `big` and its pods: what it is, its address, and a text of its content. */
const viewsOf = (pod: string): readonly (readonly [what: string, hash: string, content: string])[] => [
  ['overview', '#/', 'Recent events'],
  ['resources', '#/resources', 'ConfigMap'],
  ['pod', `#/o/core/v1/pods/default/${pod}`, 'Conditions'],
  ['YAML of a pod', `#/o/core/v1/pods/default/${pod}/yaml`, 'Edit'],
  ['managed fields of a pod', `#/o/core/v1/pods/default/${pod}/fields`, 'spec.'],
  ['scheduling of a pod', `#/o/core/v1/pods/default/${pod}/scheduling`, 'What if the pod or the nodes were different?'],
  ['Deployment', '#/o/apps/v1/deployments/default/big', 'The rollout is complete'],
  ['revisions', '#/o/apps/v1/deployments/default/big/revisions', 'Revision 1'],
  ['topology', '#/topology', 'What if this node is lost?'],
  ['flow of Services', '#/topology/services', 'ClusterIP'],
  ['denied request', '#/why/access?verb=list&target=pods', 'Rules of the user'],
  ['denied traffic', '#/why/traffic', 'Who may connect to whom'],
  ['traces', '#/traces', 'Slowest of the last 100 rollouts'],
  ['plugin', '#/plugins/role/apiserver', 'apiserver_request_duration_seconds'],
  ['creation', '#/create', 'Check'],
];

/** Opens each view, and returns the time until it shows its content. */
export async function openViews(page: Page, pod: string): Promise<readonly Figure[]> {
  const figures: Figure[] = [];
  const { origin } = new URL(page.url());
  for (const [what, hash, content] of viewsOf(pod)) {
    await page.goto(`${origin}/console/#/resources`);
    await page.locator('main').getByText('ConfigMap').first().waitFor();
    const began = performance.now();
    await page.goto(`${origin}/console/${hash}`);
    await page.locator('main').getByText(content).first().waitFor();
    figures.push({ what: `view: ${what}`, value: performance.now() - began, unit: 'ms' });
  }
  return figures;
}
