import { expect, it } from 'vitest';
import type { OidcProvider } from '../../fixtures/oidc-provider.ts';
import { accessibilityFaults, openPage } from '../../harness/browser.ts';
import type { ConsoleStage } from './stage.ts';

/** The user of the provider whose group has permissions, and one without. */
export const oidcUsers = [
  { name: 'ada', groups: ['viewers'] },
  { name: 'bob', groups: [] },
];

/** Signs in at an OpenID Connect provider. */
export function oidc(stage: () => ConsoleStage, provider: () => OidcProvider): void {
  it('signs in at the OIDC provider, and returns to the same position without a code or token in the address or in storage', async () => {
    await stage().cluster.kubectl.run(['create', 'clusterrolebinding', 'viewers', '--clusterrole=view', '--group=oidc:viewers']);
    const { page, context, faults } = await openPage(stage().browser);
    await page.goto(`${stage().origin}/console/#/r/core/v1/serviceaccounts`);
    await page.getByRole('button', { name: `Sign in at ${provider().host}` }).waitFor();
    expect(await accessibilityFaults(page)).toEqual([]);
    await page.getByRole('button', { name: `Sign in at ${provider().host}` }).click();
    await page.getByRole('link', { name: 'ada' }).click();
    await page.getByText('oidc:ada').first().waitFor();
    await page.getByRole('grid').getByText('default').first().waitFor();
    expect(page.url()).toBe(`${stage().origin}/console/#/r/core/v1/serviceaccounts`);
    const readable = '[document.cookie, Object.keys(localStorage).sort(), { ...sessionStorage }, history.state]';
    expect(await page.evaluate(readable)).toEqual(['', ['oarlock-page-key', 'oarlock-theme'], {}, null]);
    // a response to no request of the page does not sign out
    await page.goto(`${stage().origin}/console/?error=access_denied#/r/core/v1/serviceaccounts`);
    await page.getByText('The OIDC provider did not sign you in: access_denied').waitFor();
    await page.getByText('oidc:ada').first().waitFor();
    // a link does not replace the session, in this tab and in another
    const link = await stage().createLink();
    const other = await context.newPage();
    for (const tab of [page, other]) {
      await tab.goto(link);
      await tab.getByText('You are signed in as oidc:ada. Sign out first to use a link.').waitFor();
      await tab.reload();
      await tab.getByText('oidc:ada').first().waitFor();
    }
    await other.close();
    expect(provider().renewals).toBeGreaterThan(0);
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByText('You are signed out of the console, but not at the OIDC provider.').waitFor();
    await expect.poll(() => provider().revocations).toBe(1);
    expect(await accessibilityFaults(page)).toEqual([]);
    await page.getByRole('link', { name: `Sign out at ${provider().host}` }).click();
    await page.getByText('Logout of console').waitFor();
    await page.goBack();
    await page.getByRole('button', { name: `Sign in at ${provider().host}` }).waitFor();
    await page.reload();
    await page.getByRole('button', { name: `Sign in at ${provider().host}` }).waitFor();
    expect(faults).toEqual([]);
    await context.close();
  });

  it('shows a user of the provider without permissions what is not allowed', async () => {
    const { page, context, faults } = await openPage(stage().browser);
    await page.goto(`${stage().origin}/console/#/r/core/v1/pods`);
    await page.getByRole('button', { name: `Sign in at ${provider().host}` }).click();
    await page.getByRole('link', { name: 'bob' }).click();
    await page.getByText(/Not available.*"oidc:bob" cannot list resource "pods"/).waitFor();
    expect(faults).toEqual([]);
    await context.close();
  });

  it('rejects the response of another sign-in, an expired code and a denied access', async () => {
    const { page, context, faults } = await openPage(stage().browser);
    const alert = page.getByRole('alert');
    const button = page.getByRole('button', { name: `Sign in at ${provider().host}` });
    // the response to a sign-in that an attacker began, which would sign the victim in as the attacker
    const attacker = await openPage(stage().browser);
    await attacker.page.goto(`${stage().origin}/console/`);
    await attacker.page.getByRole('button', { name: `Sign in at ${provider().host}` }).click();
    const address = await attacker.page.getByRole('link', { name: 'bob' }).getAttribute('href');
    await attacker.context.close();
    await page.goto(`${provider().issuer}${address}`);
    await alert.getByText('The OIDC provider did not sign you in: this page did not begin the sign-in').waitFor();
    expect(page.url()).toBe(`${stage().origin}/console/#/`);

    provider().codesExpire = true;
    await button.click();
    await page.getByRole('link', { name: 'ada' }).click();
    await alert.getByText('The OIDC provider did not sign you in: the OIDC provider rejected the code').waitFor();
    provider().codesExpire = false;

    await button.click();
    await page.getByRole('link', { name: 'Deny' }).click();
    await alert.getByText('The OIDC provider did not sign you in: access_denied').waitFor();
    await button.click();
    await page.getByRole('link', { name: 'ada' }).click();
    await page.getByText('oidc:ada').first().waitFor();
    expect(faults).toEqual([]);
    await context.close();
  });
}
