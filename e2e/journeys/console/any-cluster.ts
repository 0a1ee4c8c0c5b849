import { readFile, writeFile } from 'node:fs/promises';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse, stringify } from 'yaml';
import { browserMissing, launchBrowser, openPage, type ObservedPage } from '../../harness/browser.ts';
import type { Cluster } from '../../harness/cluster.ts';
import type { Kubectl } from '../../harness/kubectl.ts';
import type { Machine } from '../../harness/machine.ts';
import { oarlock, runOarlock } from '../../harness/oarlock.ts';
import { Daemon } from '../../harness/programs.ts';

const missing = browserMissing();

interface Kubeconfig {
  readonly clusters: readonly unknown[];
  readonly contexts: readonly { readonly name: string; readonly context: object }[];
}

/** Writes a kubeconfig whose context `reader` has a token of a service account that may only read, and not everything. */
async function readerKubeconfig(cluster: Cluster, file: string): Promise<void> {
  const { kubectl } = cluster;
  await kubectl.run(['create', 'serviceaccount', 'console-reader']);
  await kubectl.run(['create', 'clusterrolebinding', 'console-reader', '--clusterrole=view', '--serviceaccount=default:console-reader']);
  const token = (await kubectl.run(['create', 'token', 'console-reader'])).trim();
  const config = parse(await readFile(cluster.kubeconfig, 'utf8')) as Kubeconfig;
  const reader = { name: 'reader', context: { ...config.contexts[0]?.context, user: 'reader' } };
  await writeFile(
    file,
    stringify({
      ...config,
      'current-context': 'reader',
      contexts: [...config.contexts, reader],
      users: [{ name: 'reader', user: { token } }],
    }),
  );
}

/**
 * Drives `oarlock console --kubeconfig` in the browser.
 * @param cluster a cluster without the plugin `console`, with a running pod `idle` in the namespace `default`
 */
export function consoleOfAnyCluster(machine: Machine, cluster: () => Cluster): void {
  describe.skipIf(missing !== undefined)(
    `the console on this machine for a cluster without one${missing === undefined ? '' : ` (${missing})`}`,
    { retry: 0 },
    () => {
      let browser: Browser;
      beforeAll(async () => {
        browser = await launchBrowser();
      });
      afterAll(() => browser?.close());

      it('has the rights of the kubeconfig only, and reports what is missing', async () => {
        const file = machine.path('reader.kubeconfig');
        await readerKubeconfig(cluster(), file);
        const top = await runOarlock(['top', '--kubeconfig', file, '--namespace', 'default']);
        expect(top).toMatchObject({ code: 0, stdout: expect.stringMatching(/^default +idle +1\/1 +Running/m) });
        expect(top.stdout).toMatch(/^No nodes: .*cannot list resource "nodes"/m);
        expect(top.stdout).toMatch(/^No figures of the control plane: .*\/metrics/m);
        await withConsole(browser, ['--kubeconfig', file, '--context', 'reader'], async ({ page, context }, origin) => {
          await page.getByText('system:serviceaccount:default:console-reader').first().waitFor();
          expect(await context.cookies()).toMatchObject([{ httpOnly: true, secure: true, sameSite: 'Strict' }]);
          await page
            .getByText(/cannot list resource "nodes"/)
            .first()
            .waitFor();
          await page.goto(`${origin}/console/#/r/core/v1/secrets`);
          await page.getByText(/Not available.*cannot list resource "secrets"/).waitFor();
          await page.goto(`${origin}/console/#/o/core/v1/pods/default/idle/terminal`);
          await page.getByRole('button', { name: 'Connect' }).click();
          await page.getByText(/The session failed: .*cannot \w+ resource "pods\/exec"/).waitFor();
          await page.goto(`${origin}/console/#/o/core/v1/pods/default/idle/yaml`);
          await page.getByRole('button', { name: 'Delete' }).click();
          await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
          await page
            .getByText(/cannot delete resource "pods"/)
            .first()
            .waitFor();
        });
      });

      it('streams over it, and shows nothing that only Oarlock serves for a server that answers as another', async () => {
        await withConsole(browser, ['--kubeconfig', cluster().kubeconfig], async (view, origin) => {
          // the version by which the page recognizes a server, and the answer of a server without the paths of Oarlock
          await view.page.route('**/version', (route) => route.fulfill({ json: { gitVersion: 'v1.36.0' } }));
          await view.page.route('**/oarlock/**', (route) => route.fulfill({ status: 404, json: { message: 'not found' } }));
          await view.page.reload();
          await useAnotherServer(view, origin, { kubectl: cluster().kubectl, namespace: 'default' });
        });
      });
    },
  );
}

/** Serves the console on this machine with these arguments of `oarlock console`, and signs in. */
export async function withConsole(
  browser: Browser,
  args: readonly string[],
  use: (view: ObservedPage, origin: string) => Promise<void>,
): Promise<void> {
  const daemon = new Daemon(oarlock.file, [...oarlock.args, 'console', ...args]);
  const view = await openPage(browser);
  try {
    const [, link = ''] = await daemon.line(/^Console: (https:\/\/127\.0\.0\.1:\d+\/console\/#\/sign-in\/[\w-]{43})$/);
    await view.page.goto(link);
    await view.page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
    await use(view, new URL(link).origin);
  } finally {
    await view.context.close();
    await daemon.stop();
  }
  expect(view.faults).toEqual([]);
  expect(await daemon.exit).toBe(0);
}

/** Uses the page with a server that is not Oarlock, and that has a running pod `idle` in the namespace. */
export async function useAnotherServer(
  { page }: ObservedPage,
  origin: string,
  { kubectl, namespace }: { readonly kubectl: Kubectl; readonly namespace: string },
): Promise<void> {
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
  const views = page.getByRole('navigation', { name: 'Views' });
  expect(await views.getByRole('link', { name: /^(Traces|Plugins)$/ }).count()).toBe(0);
  await page.goto(`${origin}/console/#/traces`);
  await page.getByText('only Oarlock serves it').waitFor();
  await page.goto(`${origin}/console/#/r/core/v1/configmaps?ns=${namespace}`);
  await page.getByRole('grid').getByText('kube-root-ca.crt').waitFor();
  await kubectl.run(['-n', namespace, 'create', 'configmap', 'seen-live']);
  await page.getByRole('grid').getByText('seen-live').waitFor();
  await page.goto(`${origin}/console/#/o/core/v1/pods/${namespace}/idle`);
  const tabs = page.locator('nav.tabs');
  await tabs.getByRole('link', { name: 'Terminal', exact: true }).click();
  expect(await tabs.getByRole('link', { name: /^(Trace|Scheduling)$/ }).count()).toBe(0);
  await page.getByRole('button', { name: 'Connect' }).click();
  await page.locator('.xterm-rows').getByText(/[#$]/).first().waitFor();
  await page.keyboard.type('echo $((40+2))-through-the-kubeconfig\n');
  await page.locator('.xterm-rows').getByText('42-through-the-kubeconfig').waitFor();
}
