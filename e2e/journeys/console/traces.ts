import { expect, it } from 'vitest';
import { accessibilityFaults, documentPage } from '../../harness/browser.ts';
import type { ConsoleStage } from './stage.ts';

/** Shows the trace of the rollout. */
export function trace(stage: () => ConsoleStage): void {
  it('shows the trace of the rollout, with its critical path', async () => {
    await stage().tab('Trace');
    const steps = stage().page.getByRole('region', { name: 'Steps of the trace' });
    await steps
      .getByRole('rowheader', { name: /(schedule|sync pod)\s.*on the critical path/ })
      .first()
      .waitFor();
    expect(await steps.getByText('deployments.apps/default/hello').count()).toBeGreaterThan(0);
    const all = await steps.getByRole('row').count();
    const changes = steps.getByRole('row', { name: 'admission admission-priority' }).first();
    await changes.getByText('Changed 2 fields').click();
    await changes.getByText('+ spec.priority: 0').waitFor();
    await changes.getByText('Changed 2 fields').click();
    await stage().page.getByLabel('Only the critical path and failed steps').check();
    await expect.poll(() => steps.getByRole('row').count()).toBeLessThan(all);
    await documentPage(stage().page, 'console-trace');
    expect(await accessibilityFaults(stage().page)).toEqual([]);
    await stage().tab('Events');
    await stage().page.getByRole('link', { name: 'Trace of deployments.apps/default/hello' }).first().click();
    await stage()
      .page.getByText(/^The latest recorded change of deployments.apps\/default\/hello before the event/)
      .waitFor();
    await steps.getByRole('rowheader', { name: 'patch deployments.apps' }).first().waitFor();
  });
}

/** Compares traces of rollouts. */
export function traces(stage: () => ConsoleStage): void {
  it('lists the slowest rollouts, and compares two of them', async () => {
    await stage().goTo('#/traces');
    await stage().heading('Traces');
    const rollouts = stage().page.getByRole('region', { name: 'Slowest of the last 100 rollouts' });
    await rollouts.getByRole('radio', { name: 'A: deployments.apps/default/hello' }).first().check();
    await rollouts.getByRole('radio', { name: 'B: deployments.apps/default/hello' }).last().check();
    await stage()
      .page.getByRole('heading', { name: /^A: .* B: / })
      .waitFor();
    await stage().page.getByRole('region', { name: 'Differences of the critical paths' }).getByRole('rowheader').first().waitFor();
    expect(await stage().page.getByRole('region', { name: 'Steps of the trace' }).count()).toBe(2);
    await documentPage(stage().page, 'console-traces');
    expect(await accessibilityFaults(stage().page)).toEqual([]);
  });
}
