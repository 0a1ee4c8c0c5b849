import { join } from 'node:path';
import { expect, it } from 'vitest';
import { browserCertificateMissing, launchBrowserWithCertificate } from '../../harness/browser-certificate.ts';
import { accessibilityFaults, openPage } from '../../harness/browser.ts';
import type { ConsoleStage } from './stage.ts';

const maxFirstLoadBytes = 300_000;

/** Signs in: by link, by token and by client certificate. */
export function signIn(stage: () => ConsoleStage): void {
  it('signs in by the printed link, and leaves no secret in the address or in storage that scripts read', async () => {
    const link = stage().printedLink;
    expect(link).toMatch(/\/console\/#\/sign-in\/[\w-]{43}$/);
    const secret = link.split('/').at(-1) ?? '';
    await stage().page.goto(link);
    await stage().heading('Overview');
    await stage().page.getByText('kubernetes-admin').waitFor();
    expect(stage().page.url()).not.toContain(secret);
    const readable = await stage().page.evaluate(
      'JSON.stringify([document.cookie, { ...localStorage }, { ...sessionStorage }, history.state])',
    );
    // the key of the page, without the cookie that scripts cannot read, is no credential
    expect(JSON.parse(readable as string)).toEqual([
      '',
      { 'oarlock-theme': 'auto', 'oarlock-page-key': expect.stringMatching(/^[\w-]{43}$/) },
      {},
      null,
    ]);
    await stage().page.reload();
    await stage().page.getByText('kubernetes-admin').waitFor();
    const [cookie, ...others] = await stage().user.context.cookies();
    expect(others).toEqual([]);
    expect(cookie).toMatchObject({
      name: `__Host-oarlock-session-${stage().cluster.port}`,
      httpOnly: true,
      secure: true,
      sameSite: 'Strict',
      path: '/',
    });
    expect(await stage().cluster.log()).not.toContain(secret);
  });

  it('is not signed in by the cookie alone, which servers on other ports of the host can set and read', async () => {
    const other = await openPage(stage().browser);
    await other.context.addCookies(await stage().user.context.cookies());
    await other.page.goto(`${stage().origin}/console/`);
    await other.page.getByLabel('Bearer token').waitFor();
    await other.context.close();
    const second = await stage().user.context.newPage();
    await second.goto(`${stage().origin}/console/`);
    await second.getByText('kubernetes-admin').waitFor();
    await second.close();
  });

  it('loads less than 300 KB at first', async () => {
    const bytes = (await stage().page.evaluate(
      `performance.getEntriesByType('resource').filter(({ name }) => name.includes('/console/')).reduce((sum, { encodedBodySize }) => sum + encodedBodySize, 0)`,
    )) as number;
    expect(bytes).toBeGreaterThan(10_000);
    expect(bytes).toBeLessThan(maxFirstLoadBytes);
  });

  it('rejects the link when it is used again', async () => {
    const other = await openPage(stage().browser);
    await other.page.goto(stage().printedLink);
    await other.page.getByRole('alert').getByText('The link did not sign you in').waitFor();
    await other.page.getByLabel('Bearer token').waitFor();
    expect(await accessibilityFaults(other.page)).toEqual([]);
    await other.context.close();
  });

  it('signs in with a bearer token, with the permissions of its user', async () => {
    await stage().cluster.kubectl.run(['create', 'serviceaccount', 'reader']);
    const token = (await stage().cluster.kubectl.run(['create', 'token', 'reader'])).trim();
    const other = await openPage(stage().browser);
    await other.page.goto(`${stage().origin}/console/`);
    await other.page.getByLabel('Bearer token').fill(token);
    await other.page.getByRole('button', { name: 'Sign in', exact: true }).click();
    await other.page.getByText('system:serviceaccount:default:reader').first().waitFor();
    await other.page.goto(`${stage().origin}/console/#/r/core/v1/secrets`);
    await other.page.getByText(/Not available.*cannot list resource "secrets"/).waitFor();
    // a view of several resources reports the missing permission as well, and claims nothing about what may not be read
    for (const [hash, resource] of [
      ['#/topology/services', 'services'],
      ['#/why/traffic', 'pods'],
      ['#/r/core/v1/secrets', 'secrets'],
    ]) {
      await other.page.goto(`${stage().origin}/console/${hash}`);
      await other.page.getByText(new RegExp(`Not available: .*cannot list resource "${resource}"`)).waitFor();
      await expect.poll(() => other.page.locator('main .empty').innerText()).toBe('Not available');
    }
    await other.page.getByRole('link', { name: 'Why?' }).click();
    const answer = other.page.locator('main');
    await answer.getByText('system:serviceaccount:default:reader may not list secrets in all namespaces').waitFor();
    await answer.getByText('{APIGroups:[""], Resources:["secrets"], Verbs:["list"]}').waitFor();
    await answer.getByText('The server does not show you the decision of each authorizer.').waitFor();
    await other.page.getByRole('button', { name: 'Sign out' }).click();
    await other.page.getByLabel('Bearer token').waitFor();
    await other.context.close();
  });

  it('reports a browser without a client certificate', async () => {
    const button = { name: 'Sign in with the client certificate of this browser' };
    const without = await openPage(stage().browser);
    await without.page.goto(`${stage().origin}/console/`);
    await without.page.getByRole('button', button).click();
    await without.page.getByRole('alert').getByText('Sign-in failed: the request has no credentials').waitFor();
    await without.context.close();
  });

  const missing = browserCertificateMissing();
  it.skipIf(missing !== undefined)(
    `signs in with the client certificate of the browser${missing === undefined ? '' : ` (${missing})`}`,
    async () => {
      const { cluster, origin } = stage();
      const browser = await launchBrowserWithCertificate(join(cluster.dir, 'browser'), cluster.kubeconfig, origin);
      try {
        const { page, context, faults } = await openPage(browser);
        await page.goto(`${origin}/console/`);
        // the connection has the certificate, and no session begins without a click
        await page.getByRole('button', { name: 'Sign in with the client certificate of this browser' }).click();
        await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
        await page.getByText('kubernetes-admin').waitFor();
        expect(await context.cookies()).toMatchObject([{ httpOnly: true, secure: true, sameSite: 'Strict' }]);
        await page.getByRole('button', { name: 'Sign out' }).click();
        await page.getByLabel('Bearer token').waitFor();
        await page.reload();
        await page.getByLabel('Bearer token').waitFor();
        expect(faults).toEqual([]);
      } finally {
        await browser.close();
      }
    },
  );
}
