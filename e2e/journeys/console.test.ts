import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { accessibilityFaults, browserMissing, documentPage, launchBrowser, openPage, type ObservedPage } from '../harness/browser.ts';
import type { Cluster } from '../harness/cluster.ts';
import { composition } from '../harness/composition.ts';
import { Machine } from '../harness/machine.ts';
import { oarlock, root } from '../harness/oarlock.ts';
import { TcpRelay } from '../harness/tcp-relay.ts';
import { until } from '../harness/until.ts';

const missing = browserMissing();
const maxFirstLoadBytes = 300_000;
const markup = '<img src=x onerror="window.attacked = 1"><script>window.attacked = 1</script>';

/** A pod that no machine can run. */
const largePod = JSON.stringify({ spec: { containers: [{ name: 'large', image: 'host', resources: { requests: { cpu: '100k' } } }] } });

/** Returns the sign-in link that `oarlock up` printed. */
const printedLink = (cluster: Cluster): string => /Console: (https:\S+)/.exec(cluster.daemon.output)?.[1] ?? '';

async function createLink(cluster: Cluster): Promise<string> {
  const { code, stdout, stderr } = await cluster.oarlock('console');
  if (code !== 0) throw new Error(stderr);
  return stdout.trim();
}

describe.skipIf(missing !== undefined)(
  `the console${missing === undefined ? '' : ` (${missing})`}`,
  { retry: 0 }, // steps of one journey: what fails is tried again from the beginning, not from its middle
  () => {
    const machine = Machine.use();
    let cluster: Cluster;
    let browser: Browser;
    let user: ObservedPage;
    let page: Page;

    const open = (hash: string) => page.goto(`https://127.0.0.1:${cluster.port}/console/${hash}`);
    const tab = (name: string) => page.locator('nav.tabs').getByRole('link', { name, exact: true }).click();
    const heading = (name: string | RegExp) => page.getByRole('heading', { level: 1, name }).waitFor();

    beforeAll(async () => {
      cluster = await machine.cluster({
        spec: {
          ...composition({ storage: 'embedded', runtime: 'process', network: 'host', kubelet: { port: 0 } }),
          paths: ['console'],
        },
      });
      browser = await launchBrowser();
      user = await openPage(browser);
      page = user.page;
    });
    afterAll(() => browser?.close());

    it('signs in by the printed link, and leaves no secret in the address or in storage that scripts read', async () => {
      const link = printedLink(cluster);
      expect(link).toMatch(/\/console\/#\/sign-in\/[\w-]{43}$/);
      const secret = link.split('/').at(-1) ?? '';
      await page.goto(link);
      await heading('Overview');
      await page.getByText('kubernetes-admin').waitFor();
      expect(page.url()).not.toContain(secret);
      const readable = await page.evaluate('JSON.stringify([document.cookie, { ...localStorage }, { ...sessionStorage }, history.state])');
      // the key of the page, without the cookie that scripts cannot read, is no credential
      expect(JSON.parse(readable as string)).toEqual([
        '',
        { 'oarlock-theme': 'auto', 'oarlock-page-key': expect.stringMatching(/^[\w-]{43}$/) },
        {},
        null,
      ]);
      await page.reload();
      await page.getByText('kubernetes-admin').waitFor();
      const [cookie, ...others] = await user.context.cookies();
      expect(others).toEqual([]);
      expect(cookie).toMatchObject({
        name: `__Host-oarlock-session-${cluster.port}`,
        httpOnly: true,
        secure: true,
        sameSite: 'Strict',
        path: '/',
      });
      expect(await cluster.log()).not.toContain(secret);
    });

    it('is not signed in by the cookie alone, which servers on other ports of the host can set and read', async () => {
      const other = await openPage(browser);
      await other.context.addCookies(await user.context.cookies());
      await other.page.goto(`https://127.0.0.1:${cluster.port}/console/`);
      await other.page.getByLabel('Bearer token').waitFor();
      await other.context.close();
      const second = await user.context.newPage();
      await second.goto(`https://127.0.0.1:${cluster.port}/console/`);
      await second.getByText('kubernetes-admin').waitFor();
      await second.close();
    });

    it('loads less than 300 KB at first', async () => {
      const bytes = (await page.evaluate(
        `performance.getEntriesByType('resource').filter(({ name }) => name.includes('/console/')).reduce((sum, { encodedBodySize }) => sum + encodedBodySize, 0)`,
      )) as number;
      expect(bytes).toBeGreaterThan(10_000);
      expect(bytes).toBeLessThan(maxFirstLoadBytes);
    });

    it('rejects the link when it is used again', async () => {
      const other = await openPage(browser);
      await other.page.goto(printedLink(cluster));
      await other.page.getByRole('alert').getByText('The link did not sign you in').waitFor();
      await other.page.getByLabel('Bearer token').waitFor();
      expect(await accessibilityFaults(other.page)).toEqual([]);
      await other.context.close();
    });

    it('signs in with a bearer token, with the permissions of its user', async () => {
      await cluster.kubectl.run(['create', 'serviceaccount', 'reader']);
      const token = (await cluster.kubectl.run(['create', 'token', 'reader'])).trim();
      const other = await openPage(browser);
      await other.page.goto(`https://127.0.0.1:${cluster.port}/console/`);
      await other.page.getByLabel('Bearer token').fill(token);
      await other.page.getByRole('button', { name: 'Sign in', exact: true }).click();
      await other.page.getByText('system:serviceaccount:default:reader').first().waitFor();
      await other.page.goto(`https://127.0.0.1:${cluster.port}/console/#/r/core/v1/secrets`);
      await other.page.getByText(/Not available.*cannot list resource "secrets"/).waitFor();
      await other.page.getByRole('link', { name: 'Why?' }).click();
      const answer = other.page.locator('main');
      await answer.getByText('system:serviceaccount:default:reader may not list secrets in all namespaces').waitFor();
      await answer.getByText('{APIGroups:[""], Resources:["secrets"], Verbs:["list"]}').waitFor();
      await answer.getByText('The server does not show you the decision of each authorizer.').waitFor();
      await other.page.getByRole('button', { name: 'Sign out' }).click();
      await other.page.getByLabel('Bearer token').waitFor();
      await other.context.close();
    });

    it('deploys the example from pasted YAML, and shows that it becomes ready', async () => {
      await page.keyboard.press('c');
      await heading('Create from YAML');
      await page.getByLabel('YAML documents').fill(await readFile(join(root, 'examples', 'hello', 'hello.yaml'), 'utf8'));
      await documentPage(page, 'console-create');
      await page.getByRole('button', { name: 'Check' }).click();
      await page.getByText('created').first().waitFor();
      expect(await cluster.kubectl.run(['get', 'deployments', '-o', 'name'])).toBe('');
      await page.getByRole('button', { name: 'Apply' }).click();
      await page.getByRole('link', { name: 'Deployment hello' }).click();
      await page.getByText('The rollout is complete').waitFor();
      await expect.poll(() => page.locator('.tree').first().getByText('Running', { exact: true }).count()).toBe(3);
      await page.getByRole('link', { name: 'hello', exact: true }).waitFor();
      await documentPage(page, 'console-workload');
    });

    it('shows the logs of all pods together', async () => {
      await tab('Logs');
      await expect
        .poll(() =>
          page
            .getByRole('log')
            .getByText(/listens on 127\./)
            .count(),
        )
        .toBe(3);
      await page.getByLabel('Filter lines').fill('no such line');
      await page.getByText('0 lines').waitFor();
      await page.getByLabel('Filter lines').fill('');
      await documentPage(page, 'console-logs');
    });

    it('shows the trace of the rollout, with its critical path', async () => {
      await tab('Trace');
      const steps = page.getByRole('region', { name: 'Steps of the trace' });
      await steps
        .getByRole('rowheader', { name: /(schedule|sync pod)\s.*on the critical path/ })
        .first()
        .waitFor();
      expect(await steps.getByText('deployments.apps/default/hello').count()).toBeGreaterThan(0);
      const all = await steps.getByRole('row').count();
      await page.getByLabel('Only the critical path and failed steps').check();
      await expect.poll(() => steps.getByRole('row').count()).toBeLessThan(all);
      await documentPage(page, 'console-trace');
      expect(await accessibilityFaults(page)).toEqual([]);
    });

    it('shows why a pod is pending, and what would change it', async () => {
      await cluster.kubectl.run(['run', 'large', '--image=host', '--overrides', largePod, '--', 'sleep', '600']);
      await open('#/o/core/v1/pods/default/large/scheduling');
      const verdicts = page.getByRole('region', { name: 'Verdict for each node' });
      await verdicts.getByText('NodeResourcesFit: Insufficient cpu').waitFor();
      await page.getByRole('status').getByText('0/1 nodes are available: 1 Insufficient cpu').waitFor();
      await documentPage(page, 'console-scheduling');
      expect(await accessibilityFaults(page)).toEqual([]);
      await page.getByLabel('CPU request of the first container').fill('many');
      await page.getByRole('button', { name: 'Evaluate' }).click();
      await page.getByRole('alert').getByText('quantities must match').waitFor();
      await page.getByLabel('CPU request of the first container').fill('10m');
      await page.getByRole('button', { name: 'Evaluate' }).click();
      await page.getByText('The pod would go to node').waitFor();
      await page.getByRole('button', { name: 'Back to the pod as it is' }).click();
      await verdicts.getByText('NodeResourcesFit: Insufficient cpu').waitFor();
      await open('#/topology');
      await heading('Topology');
      await page.getByRole('heading', { name: 'Pods without a node: 1' }).waitFor();
      await expect
        .poll(() =>
          page
            .getByRole('region', { name: 'node-a' })
            .getByRole('link', { name: /^hello-/ })
            .count(),
        )
        .toBe(3);
      await documentPage(page, 'console-topology');
      await page.getByRole('button', { name: 'What if this node is lost?' }).click();
      const loss = page.getByRole('dialog', { name: 'If node node-a is lost' });
      await expect
        .poll(() => loss.getByText("no other node can run it: 0/1 nodes are available: 1 node(s) didn't match Pod's node affinity").count())
        .toBe(3);
      expect(await accessibilityFaults(page)).toEqual([]);
      await page.keyboard.press('Escape');
      await cluster.kubectl.run(['delete', 'pod', 'large']);
      await open('#/o/apps/v1/deployments/default/hello/summary');
    });

    it('explains rule by rule why a request is denied, and what admission decides about an object', async () => {
      await open('#/why/access?verb=list&target=secrets&ns=default&user=system:serviceaccount:default:reader');
      const answer = page.locator('main');
      await answer.getByText('system:serviceaccount:default:reader may not list secrets in namespace default').waitFor();
      await answer.getByText('authz-rbac: no-opinion').waitFor();
      await answer
        .getByRole('region', { name: /^Rules of the user/ })
        .getByText('selfsubjectrulesreviews')
        .first()
        .waitFor();
      await documentPage(page, 'console-why-access');
      expect(await accessibilityFaults(page)).toEqual([]);
      await page.getByLabel('User (empty: yourself)').fill('');
      await page.getByLabel('Verb').fill('create');
      await page.getByLabel('Resource or path').fill('pods');
      await page.getByText('With an object').click();
      await page
        .getByLabel('YAML of the object')
        .fill(`apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {serviceAccountName: ${JSON.stringify(markup)}}`);
      await page.getByRole('button', { name: 'Explain' }).click();
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
      await cluster.kubectl.run(['create', '-f', '-'], { input: JSON.stringify(policy) });
      await cluster.kubectl.run(['run', 'client', '--image=host', '--labels=role=client', '--', 'sleep', '600']);
      await open('#/why/traffic?from=default/client&to=default/hello&port=http&ns=default');
      const answer = page.locator('main');
      await answer.getByText('default/client may connect to default/hello, port 8080/tcp').waitFor();
      await answer.getByText('Allowed by default/hello-clients spec.ingress[0]').waitFor();
      await cluster.kubectl.run(['label', 'pod', 'client', 'role=other', '--overwrite']);
      await answer.getByText('default/client may not connect to default/hello, port 8080/tcp').waitFor();
      await answer.getByText('Denied: no rule of default/hello-clients allows it').waitFor();
      expect(await answer.locator('path.edge-none.questioned').count()).toBe(1);
      await documentPage(page, 'console-why-traffic');
      await answer.getByText('As a table').click();
      expect(await accessibilityFaults(page)).toEqual([]);
      await cluster.kubectl.run(['delete', 'networkpolicy/hello-clients', 'pod/client', '--grace-period=1', '--wait=false']);
      await answer.getByText('default/client is neither a pod with an address of its own nor an IP address').waitFor();
      await open('#/o/apps/v1/deployments/default/hello/summary');
    });

    it('shows the pods in the terminal as well, live: oarlock top', async () => {
      const facts = JSON.parse((await cluster.oarlock('top', '-n', 'default', '-o', 'json')).stdout) as object;
      expect(facts).toMatchObject({
        nodes: [{ name: 'node-a', status: 'Ready' }],
        controlPlane: { ready: true, queueDepths: expect.any(Object) },
      });
      const command = [oarlock.file, ...oarlock.args, 'top', '--data-dir', cluster.dataDir].map((word) => `'${word}'`).join(' ');
      // `script` runs the command on a terminal of its own
      const screen = spawn('script', ['-qefc', `stty columns 160 rows 30; ${command}`, '/dev/null'], {
        stdio: ['pipe', 'pipe', 'inherit'],
      });
      let output = '';
      screen.stdout.on('data', (chunk: Buffer) => {
        output += chunk.toString();
      });
      const exit = once(screen, 'exit');
      await until('the pods are listed', () => /default +hello-\S+ +1\/1 +Running/.test(output));
      await cluster.kubectl.run(['run', 'top', '--image=host', '--', 'sleep', '600']);
      await until('a new pod is listed', () => /default +top +1\/1 +Running/.test(output));
      screen.stdin.write('q');
      expect(await exit).toEqual([0, null]);
      expect(output.endsWith('\u001B[?25h\u001B[?1049l')).toBe(true);
      await cluster.kubectl.run(['delete', 'pod', 'top', '--grace-period=1', '--wait=false']);
    });

    it('opens a terminal in a container', async () => {
      await tab('Terminal');
      await page.getByRole('button', { name: 'Connect' }).click();
      await page.locator('.xterm-rows').getByText(/[#$]/).first().waitFor();
      await page.keyboard.type('echo $((40+2))-in-the-pod\n');
      await page.locator('.xterm-rows').getByText('42-in-the-pod').waitFor();
      await documentPage(page, 'console-terminal');
      expect(await accessibilityFaults(page)).toEqual([]);
      await page.keyboard.press('Escape');
      await page.keyboard.press('Escape');
      await expect.poll(() => page.evaluate('document.activeElement.textContent')).toBe('Disconnect');
    });

    it('shows the difference of an edit before it is applied, and rolls back', async () => {
      await tab('YAML');
      await page.getByRole('button', { name: 'Edit' }).click();
      const editor = page.getByLabel('YAML of the object');
      await editor.fill((await editor.inputValue()).replace('terminationGracePeriodSeconds: 30', 'terminationGracePeriodSeconds: 2'));
      await page.getByRole('button', { name: 'Review changes' }).click();
      await page.locator('.diff-added').waitFor();
      expect(await page.locator('.diff-added').allTextContents()).toEqual([
        expect.stringMatching(/^\+ +terminationGracePeriodSeconds: 2$/),
      ]);
      expect(await page.locator('.diff-removed').allTextContents()).toEqual([
        expect.stringMatching(/^- +terminationGracePeriodSeconds: 30$/),
      ]);
      await documentPage(page, 'console-edit');
      expect(await accessibilityFaults(page)).toEqual([]);
      await page.getByRole('button', { name: 'Apply' }).click();
      await tab('Revisions');
      await page.getByText('Revision 2 (current)').waitFor();
      await page.getByRole('button', { name: 'Compare with the current revision' }).click();
      await page.locator('.diff-added').getByText('terminationGracePeriodSeconds: 30').waitFor();
      await documentPage(page, 'console-revisions');
      expect(await accessibilityFaults(page)).toEqual([]);
      await page.getByRole('button', { name: 'Roll back' }).click();
      await page.getByText('Revision 3 (current)').waitFor();
      await tab('Summary');
      await page.getByText('The rollout is complete').waitFor();
      const grace = ['get', 'deployment', 'hello', '-o', 'jsonpath={.spec.template.spec.terminationGracePeriodSeconds}'];
      expect(await cluster.kubectl.run(grace)).toBe('30');
    });

    it('lists the slowest rollouts, and compares two of them', async () => {
      await open('#/traces');
      await heading('Traces');
      const rollouts = page.getByRole('region', { name: 'Slowest of the last 100 rollouts' });
      await rollouts.getByRole('radio', { name: 'A: deployments.apps/default/hello' }).first().check();
      await rollouts.getByRole('radio', { name: 'B: deployments.apps/default/hello' }).last().check();
      await page.getByRole('heading', { name: /^A: .* B: / }).waitFor();
      await page.getByRole('region', { name: 'Differences of the critical paths' }).getByRole('rowheader').first().waitFor();
      expect(await page.getByRole('region', { name: 'Steps of the trace' }).count()).toBe(2);
      await documentPage(page, 'console-traces');
      expect(await accessibilityFaults(page)).toEqual([]);
    });

    it('shows the composition, with the config, health and latency of each plugin', async () => {
      await page.keyboard.press('g');
      await page.keyboard.press('u');
      await heading('Plugins');
      await page.getByRole('region', { name: 'Path of a request' }).getByRole('link', { name: 'admission-limit-ranger' }).click();
      const card = page.getByRole('region', { name: 'admission-limit-ranger' });
      await card.getByText(/calls · mean .* · p50 ≤ .* · p99 ≤/).waitFor();
      await card.getByText('apiserver_admission_controller_admission_duration_seconds').waitFor();
      await open('#/plugins/paths/console');
      await page.getByRole('region', { name: 'console', exact: true }).getByText('maxSessionsPerUser: 20').waitFor();
      await documentPage(page, 'console-plugins');
      expect(await accessibilityFaults(page)).toEqual([]);
    });

    it('keeps the text of an edit that conflicts, and compares it with the newest version', async () => {
      await cluster.kubectl.run(['create', 'configmap', 'edited', '--from-literal=a=1']);
      await open('#/o/core/v1/configmaps/default/edited/yaml');
      await page.getByRole('button', { name: 'Edit' }).click();
      const editor = page.getByLabel('YAML of the object');
      await editor.fill((await editor.inputValue()).replace('a: "1"', 'a: "2"'));
      await cluster.kubectl.run(['label', 'configmap', 'edited', 'other=true']);
      await page.getByRole('button', { name: 'Review changes' }).click();
      await page.getByText('The object was changed meanwhile').waitFor();
      expect(await editor.inputValue()).toContain('a: "2"');
      await page.getByRole('button', { name: 'Review changes' }).click();
      await page.locator('.diff-removed').getByText('other: "true"').waitFor();
      await page.getByRole('button', { name: 'Apply' }).click();
      await page.getByText('Applied').waitFor();
      expect(await cluster.kubectl.run(['get', 'configmap', 'edited', '-o', 'jsonpath={.data.a}'])).toBe('2');
    });

    it('shows changes of others at once, and resumes without a lost change after the connection was lost', async () => {
      const line = await TcpRelay.to(cluster.port);
      const other = await openPage(browser);
      await other.page.goto((await createLink(cluster)).replace(`:${cluster.port}/`, `:${line.port}/`));
      await other.page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
      await other.page.goto(`https://127.0.0.1:${line.port}/console/#/r/core/v1/configmaps?ns=default`);
      const grid = other.page.getByRole('grid');
      await grid.getByText('edited').waitFor();
      await cluster.kubectl.run(['create', 'configmap', 'live']);
      await grid.getByText('live').waitFor();
      line.cut();
      await other.page.getByText(/reconnecting/).waitFor();
      expect(await grid.getByText('live').count()).toBe(1);
      await cluster.kubectl.run(['create', 'configmap', 'meanwhile']);
      await cluster.kubectl.run(['delete', 'configmap', 'live']);
      line.restore();
      await grid.getByText('meanwhile').waitFor();
      await grid.getByText('live').waitFor({ state: 'detached' });
      await other.page.getByText('Live', { exact: true }).waitFor();
      await other.context.close();
      await line.close();
    });

    it('requires a new sign-in after the server restarted, because sessions are not stored', async () => {
      await open('#/r/core/v1/configmaps?ns=default');
      await page.getByRole('grid').getByText('edited').waitFor();
      await cluster.stop();
      await page.getByText(/reconnecting/).waitFor();
      await cluster.up();
      await page.getByText('The session has ended. Sign in again.').waitFor();
      await page.goto(await createLink(cluster));
      await heading('Overview');
    });

    it('shows markup and escape sequences of names, annotations, events and logs as text', async () => {
      const escape = String.raw`\u001b]52;c;ZXZpbA==\u0007\u001b[31mred\u001b[0m\u202e`;
      const pod = {
        apiVersion: 'v1',
        kind: 'Pod',
        metadata: { name: 'hostile', annotations: { markup, script: 'javascript:window.attacked=1' } },
        spec: {
          restartPolicy: 'Never',
          containers: [
            {
              name: 'c',
              image: 'host',
              command: ['node', '-e', `console.log(${JSON.stringify(markup)} + "${escape}"); setInterval(() => {}, 1e6)`],
            },
          ],
        },
      };
      const event = {
        apiVersion: 'v1',
        kind: 'Event',
        metadata: { name: 'hostile' },
        involvedObject: { apiVersion: 'v1', kind: 'Pod', namespace: 'default', name: 'hostile' },
        type: 'Warning',
        reason: 'Markup',
        message: markup,
        lastTimestamp: new Date().toISOString(),
      };
      for (const object of [pod, event]) await cluster.kubectl.run(['create', '-f', '-'], { input: JSON.stringify(object) });
      await open('#/o/core/v1/pods/default/hostile');
      await page.getByText(markup).first().waitFor();
      await tab('YAML');
      await expect.poll(() => page.getByLabel('YAML of the object').inputValue()).toContain('onerror');
      await tab('Logs');
      await page.getByRole('log').getByText(markup).waitFor();
      const line = (await page.getByRole('log').getByText(markup).textContent()) ?? '';
      expect(line.trim()).toBe(`${markup}red\uFFFD`);
      await open('#/');
      await page.getByText(markup).first().waitFor();
      expect(await page.evaluate('window.attacked')).toBeUndefined();
    });

    it('is used with the keyboard alone', async () => {
      await page.keyboard.press('g');
      await page.keyboard.press('p');
      await heading('Pod');
      await page.getByRole('grid').getByText('hostile').waitFor();
      await page.keyboard.press('f');
      await page.keyboard.type('hostile');
      await page.getByText('1 of').waitFor();
      await page.getByRole('grid').focus();
      await page.keyboard.press('ArrowDown');
      await page.keyboard.press('Enter');
      await heading(/hostile/);
      await page.locator('main').focus();
      await page.keyboard.press('?');
      await page.getByRole('dialog', { name: 'Keyboard shortcuts' }).waitFor();
      expect(await accessibilityFaults(page)).toEqual([]);
      await page.keyboard.press('Escape');
      await page.keyboard.press('/');
      await page.getByRole('combobox', { name: 'Search resources and views' }).fill('deploy');
      expect(await accessibilityFaults(page)).toEqual([]);
      await page.keyboard.press('Enter');
      await heading('Deployment');
    });

    it('views the cluster as another user, with the permissions of this user', async () => {
      await page.getByRole('button', { name: 'View as…' }).click();
      await page.getByLabel('User', { exact: true }).fill('nobody');
      await page.getByRole('button', { name: 'View', exact: true }).click();
      await page.getByText('Viewing as nobody').waitFor();
      await page.getByText(/Not available.*User "nobody" cannot list/).waitFor();
      await page.getByRole('button', { name: 'Stop' }).click();
      await page.getByRole('grid').getByText('hello').first().waitFor();
    });

    it('deletes an object after it has shown what happens to the objects that it owns', async () => {
      await open('#/o/apps/v1/deployments/default/hello');
      await page.getByRole('button', { name: 'Delete' }).click();
      const dialog = page.getByRole('dialog', { name: 'Delete hello?' });
      await dialog.getByText(/owned objects are known/).waitFor();
      expect(await accessibilityFaults(page)).toEqual([]);
      await dialog.getByRole('button', { name: 'Delete' }).click();
      await heading('Deployment');
      await expect.poll(() => cluster.kubectl.run(['get', 'deployments', '-o', 'name'])).toBe('');
    });

    describe.each([
      { width: 1280, dark: false },
      { width: 1280, dark: true },
      { width: 400, dark: false },
    ])('at $width px, dark: $dark', ({ width, dark }) => {
      let view: ObservedPage;
      beforeAll(async () => {
        view = await openPage(browser, { width, dark });
        await view.page.goto(await createLink(cluster));
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
        ['logs', '#/o/core/v1/pods/default/hostile/logs', '1 lines', undefined],
        ['managed fields', '#/o/core/v1/pods/default/hostile/fields', 'spec.', undefined],
        ['the topology', '#/topology', 'What if this node is lost?', undefined],
        ['why a request is denied', '#/why/access?verb=list&target=pods', 'Rules of the user', undefined],
        ['why traffic is denied', '#/why/traffic', 'Who may connect to whom', undefined],
        ['traces', '#/traces', 'Slowest of the last 100 rollouts', undefined],
        ['a plugin', '#/plugins/role/apiserver', 'apiserver_request_duration_seconds', undefined],
        ['creation', '#/create', 'Check', undefined],
      ])('%s is accessible and fits', async (_, hash, content, picture) => {
        await view.page.goto(`https://127.0.0.1:${cluster.port}/console/${hash}`);
        await view.page.locator('main').getByText(content).first().waitFor();
        if (picture !== undefined && width > 1000) await documentPage(view.page, dark ? `${picture}-dark` : picture);
        expect(await accessibilityFaults(view.page)).toEqual([]);
        expect(await view.page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(width);
        expect(view.faults).toEqual([]);
      });
    });

    it('caused no error and no violation of its policy', () => {
      expect(user.faults).toEqual([]);
    });
  },
);
