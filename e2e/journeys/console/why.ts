import { expect, it } from 'vitest';
import { accessibilityFaults, documentPage } from '../../harness/browser.ts';
import { markup, type ConsoleStage } from './stage.ts';

/** A pod that no machine can run. */
const largePod = JSON.stringify({ spec: { containers: [{ name: 'large', image: 'host', resources: { requests: { cpu: '100k' } } }] } });

/** Evaluates the pod on changed nodes: none of the changes is written. */
async function whatIfNodes({ page, cluster }: ConsoleStage): Promise<void> {
  const verdicts = page.getByRole('region', { name: 'Verdict for each node' });
  const evaluate = () => page.getByRole('button', { name: 'Evaluate' }).click();
  await page.getByLabel('CPU request of the first container').fill('');
  await page.getByLabel('Change a node').selectOption('node-a');
  await page.getByLabel('Allocatable CPU').fill('200k');
  await evaluate();
  await page.getByText('The pod would go to node node-a').waitFor();
  expect(await accessibilityFaults(page)).toEqual([]);
  await page.getByLabel('Taints', { exact: true }).fill('dedicated=db:Never');
  await evaluate();
  await page.getByRole('alert').getByText('"dedicated=db:Never" is no taint').waitFor();
  await page.getByLabel('Taints', { exact: true }).fill('dedicated=db:NoSchedule');
  await evaluate();
  await verdicts.getByText('TaintToleration: node(s) had untolerated taint').waitFor();
  await page.getByRole('group', { name: 'Node node-a' }).getByRole('combobox').selectOption('Another node like it');
  await page.getByLabel('Taints', { exact: true }).fill('');
  await evaluate();
  await page.getByText('The pod would go to node node-a-copy').waitFor();
  await verdicts.getByText('NodeResourcesFit: Insufficient cpu').waitFor();
  await page.getByRole('group', { name: 'Node node-a' }).getByRole('combobox').selectOption('Without the node');
  await evaluate();
  await page.getByText('no nodes available to schedule pods').waitFor();
  await page.getByRole('button', { name: 'Leave node node-a as it is' }).click();
  await evaluate();
  await verdicts.getByText('NodeResourcesFit: Insufficient cpu').waitFor();
  expect(await cluster.kubectl.run(['get', 'nodes', '-o', 'name'])).toBe('node/node-a\n');
}

/** Explains scheduling, access and traffic. */
export function why(stage: () => ConsoleStage): void {
  it('shows why a pod is pending, and what would change it', async () => {
    await stage().cluster.kubectl.run(['run', 'large', '--image=host', '--overrides', largePod, '--', 'sleep', '600']);
    await stage().goTo('#/o/core/v1/pods/default/large/scheduling');
    const verdicts = stage().page.getByRole('region', { name: 'Verdict for each node' });
    await verdicts.getByText('NodeResourcesFit: Insufficient cpu').waitFor();
    await stage().page.getByRole('status').getByText('0/1 nodes are available: 1 Insufficient cpu').waitFor();
    await documentPage(stage().page, 'console-scheduling');
    expect(await accessibilityFaults(stage().page)).toEqual([]);
    await stage().page.getByLabel('CPU request of the first container').fill('many');
    await stage().page.getByRole('button', { name: 'Evaluate' }).click();
    await stage().page.getByRole('alert').getByText('quantities must match').waitFor();
    await stage().page.getByLabel('CPU request of the first container').fill('10m');
    await stage().page.getByRole('button', { name: 'Evaluate' }).click();
    await stage().page.getByText('The pod would go to node').waitFor();
    await stage().page.getByRole('button', { name: 'Back to the pod and the nodes as they are' }).click();
    await verdicts.getByText('NodeResourcesFit: Insufficient cpu').waitFor();
    await whatIfNodes(stage());
    await stage().goTo('#/topology');
    await stage().heading('Topology');
    await stage().page.getByRole('heading', { name: 'Pods without a node: 1' }).waitFor();
    await expect
      .poll(() =>
        stage()
          .page.getByRole('region', { name: 'node-a' })
          .getByRole('link', { name: /^hello-/ })
          .count(),
      )
      .toBe(3);
    await documentPage(stage().page, 'console-topology');
    await stage().page.getByRole('button', { name: 'What if this node is lost?' }).click();
    const loss = stage().page.getByRole('dialog', { name: 'If node node-a is lost' });
    await expect.poll(() => loss.getByText('no other node can run it: no nodes available to schedule pods').count()).toBe(3);
    expect(await accessibilityFaults(stage().page)).toEqual([]);
    await stage().page.keyboard.press('Escape');
    await stage().page.getByRole('region', { name: 'node-a' }).getByRole('heading').dragTo(stage().page.getByText('Drag a node here'));
    await loss.waitFor();
    await stage().page.keyboard.press('Escape');
    await stage().tab('Services');
    const services = stage().page.getByRole('region', { name: 'Services', exact: true });
    await expect
      .poll(() =>
        services
          .getByRole('row', { name: /default\/hello/ })
          .getByRole('link', { name: /^hello-/ })
          .count(),
      )
      .toBe(3);
    await documentPage(stage().page, 'console-services');
    expect(await accessibilityFaults(stage().page)).toEqual([]);
    await stage().cluster.kubectl.run(['delete', 'pod', 'large']);
    await stage().goTo('#/o/apps/v1/deployments/default/hello/summary');
  });

  it('offers to evaluate the loss of a node when its pods are loaded, not before', async () => {
    const { page } = stage();
    const ask = page.getByRole('button', { name: 'What if this node is lost?' });
    let release!: () => void;
    const held = new Promise<void>((resolve) => (release = resolve));
    await page.route('**/api/v1/pods?*', async (route) => {
      await held;
      await route.continue();
    });
    await stage().goTo('#/topology');
    await page.getByRole('region', { name: 'node-a' }).waitFor();
    expect(await ask.count()).toBe(0);
    release();
    await ask.waitFor();
    await page.unroute('**/api/v1/pods?*');
  });

  it('explains rule by rule why a request is denied, and what admission decides about an object', async () => {
    await stage().goTo('#/why/access?verb=list&target=secrets&ns=default&user=system:serviceaccount:default:reader');
    const answer = stage().page.locator('main');
    await answer.getByText('system:serviceaccount:default:reader may not list secrets in namespace default').waitFor();
    await answer.getByText('authz-rbac: no-opinion').waitFor();
    await answer
      .getByRole('region', { name: /^Rules of the user/ })
      .getByText('selfsubjectrulesreviews')
      .first()
      .waitFor();
    await documentPage(stage().page, 'console-why-access');
    expect(await accessibilityFaults(stage().page)).toEqual([]);
    await stage().page.getByLabel('User (empty: yourself)').fill('');
    await stage().page.getByLabel('Verb').fill('create');
    await stage().page.getByLabel('Resource or path').fill('pods');
    await stage().page.getByText('With an object').click();
    await stage()
      .page.getByLabel('YAML of the object')
      .fill(`apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {serviceAccountName: ${JSON.stringify(markup)}}`);
    await stage().page.getByRole('button', { name: 'Explain' }).click();
    await answer.getByText('kubernetes-admin may not create pods in namespace default').waitFor();
    await answer.getByText(/service account .*<img src=x/).waitFor();
  });

  it('explains why a pod cannot reach another, and draws who may, live', async () => {
    const policy = {
      apiVersion: 'networking.k8s.io/v1',
      kind: 'NetworkPolicy',
      metadata: { name: 'hello-clients' },
      spec: {
        podSelector: { matchLabels: { app: 'hello' } },
        ingress: [{ from: [{ podSelector: { matchLabels: { role: 'client' } } }], ports: [{ port: 'http' }] }],
      },
    };
    await stage().cluster.kubectl.run(['create', '-f', '-'], { input: JSON.stringify(policy) });
    await stage().cluster.kubectl.run(['run', 'client', '--image=host', '--labels=role=client', '--', 'sleep', '600']);
    await stage().goTo('#/why/traffic?from=default/client&to=default/hello&port=http&ns=default');
    const answer = stage().page.locator('main');
    await answer.getByText('default/client may connect to default/hello, port 8080/tcp').waitFor();
    await answer.getByText('Allowed by default/hello-clients spec.ingress[0]').waitFor();
    await stage().cluster.kubectl.run(['label', 'pod', 'client', 'role=other', '--overwrite']);
    await answer.getByText('default/client may not connect to default/hello, port 8080/tcp').waitFor();
    await answer.getByText('Denied: no rule of default/hello-clients allows it').waitFor();
    expect(await answer.locator('path.edge-none.questioned').count()).toBe(1);
    await documentPage(stage().page, 'console-why-traffic');
    await answer.getByText('As a table').click();
    expect(await accessibilityFaults(stage().page)).toEqual([]);
    await stage().cluster.kubectl.run(['delete', 'networkpolicy/hello-clients', 'pod/client', '--grace-period=1', '--wait=false']);
    await answer.getByText('default/client is neither a pod with an address of its own nor an IP address').waitFor();
    await stage().goTo('#/o/apps/v1/deployments/default/hello/summary');
  });
}
