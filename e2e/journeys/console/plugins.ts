import { expect, it } from 'vitest';
import { accessibilityFaults, documentPage } from '../../harness/browser.ts';
import type { ConsoleStage } from './stage.ts';

/** Shows the composition. */
export function plugins(stage: () => ConsoleStage): void {
  it('shows the composition, with the config, health and latency of each plugin', async () => {
    await stage().keys('g', 'u', 'Plugins');
    await stage().page.getByRole('region', { name: 'Path of a request' }).getByRole('link', { name: 'admission-limit-ranger' }).click();
    const card = stage().page.getByRole('region', { name: 'admission-limit-ranger' });
    await card.getByText(/calls · mean .* · p50 ≤ .* · p99 ≤/).waitFor();
    await card.getByText('apiserver_admission_controller_admission_duration_seconds').waitFor();
    await stage().goTo('#/plugins/paths/console');
    await stage().page.getByRole('region', { name: 'console', exact: true }).getByText('maxSessionsPerUser: 20').waitFor();
    await documentPage(stage().page, 'console-plugins');
    expect(await accessibilityFaults(stage().page)).toEqual([]);
  });
}
