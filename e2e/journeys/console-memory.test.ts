import { writeFile } from 'node:fs/promises';
import { stringify } from 'yaml';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { PodTableServer } from '../fixtures/pod-table-server.ts';
import { browserMissing, launchBrowser } from '../harness/browser.ts';
import { Machine } from '../harness/machine.ts';
import { oarlock } from '../harness/oarlock.ts';
import { PlainTab } from '../harness/plain-tab.ts';
import { Daemon } from '../harness/programs.ts';

const pods = 30_000;
/** Pods that are replaced, six events each: seven minutes of ten replacements a second, without a pause, which is the most that a tab can need. */
const replacements = 4_000;
/** Replacements that are sent at once, before the memory is read. */
const burst = 200;
const maxTabMiB = 250;
/** What the objects of the page may grow by; an event that left 200 bytes behind would exceed it. */
const maxGrowthMiB = 4;
const missing = browserMissing();

describe.skipIf(missing !== undefined)(`the memory of a tab of the console${missing === undefined ? '' : ` (${missing})`}`, () => {
  const machine = Machine.use();
  let browser: Browser;
  beforeAll(async () => {
    browser = await launchBrowser();
  });
  afterAll(() => browser?.close());

  it(`is bounded while a rolling restart replaces pods in a table of ${pods}`, async () => {
    const api = new PodTableServer(pods);
    machine.undo('the API server', () => api.close());
    const file = machine.path('kubeconfig');
    await writeFile(
      file,
      stringify({
        ...{ apiVersion: 'v1', kind: 'Config', 'current-context': 'a' },
        clusters: [{ name: 'a', cluster: { server: await api.listen() } }],
        contexts: [{ name: 'a', context: { cluster: 'a', user: 'a' } }],
        users: [{ name: 'a', user: {} }],
      }),
    );
    const daemon = new Daemon(oarlock.file, [...oarlock.args, 'console', '--kubeconfig', file]);
    machine.undo('oarlock console', () => daemon.stop());
    const [, link = ''] = await daemon.line(/^Console: (\S+)$/);
    const tab = await PlainTab.open(browser);
    await tab.goTo(link);
    await tab.waitForText('Control plane');
    await tab.goTo(`${new URL(link).origin}/console/#/r/core/v1/pods`);
    const all = `${pods.toLocaleString('en')} objects`;
    await tab.waitForText(all);
    await expect.poll(() => api.isWatched).toBe(true);
    const before = await tab.usedMiB();
    let highest = 0;
    while (api.replaced < replacements) {
      await api.replace(burst);
      highest = Math.max(highest, await tab.processMiB({ collect: false }));
    }
    // the last pod that was replaced, in the first rows
    await tab.waitForText(all);
    const after = await tab.usedMiB();
    expect(highest).toBeLessThan(maxTabMiB);
    expect(after - before).toBeLessThan(maxGrowthMiB);
    await tab.close();
  });
});
