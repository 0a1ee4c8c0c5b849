import { afterAll, beforeAll, describe, it } from 'vitest';
import type { Browser } from 'playwright-core';
import { browserMissing, launchBrowser } from '../harness/browser.ts';
import { Kubectl, newestKubectl } from '../harness/kubectl.ts';
import { Machine } from '../harness/machine.ts';
import { until } from '../harness/until.ts';
import { useAnotherServer, withConsole } from './console/any-cluster.ts';

const kubeconfig = process.env['OARLOCK_STOCK_KUBECONFIG'];
const image = process.env['OARLOCK_STOCK_IMAGE'] ?? 'busybox';
const binary = newestKubectl();
const missing =
  browserMissing() ??
  (binary === undefined ? 'there is no kubectl' : kubeconfig === undefined ? 'OARLOCK_STOCK_KUBECONFIG names no kubeconfig' : undefined);

describe.skipIf(missing !== undefined)('the console with a stock API server', () => {
  const machine = Machine.use();
  const namespace = `console-${process.pid}`;
  let kubectl: Kubectl;
  let browser: Browser;

  beforeAll(async () => {
    if (binary === undefined || kubeconfig === undefined) throw new Error('the tests are skipped');
    kubectl = new Kubectl(binary, kubeconfig, machine.path('home'));
    browser = await launchBrowser();
    await kubectl.run(['create', 'namespace', namespace]);
    await until('the default service account', () => kubectl.run(['-n', namespace, 'get', 'serviceaccount', 'default']));
    await kubectl.run(['-n', namespace, 'run', 'idle', `--image=${image}`, '--', 'sleep', '3600']);
    await kubectl.run(['-n', namespace, 'wait', '--for=condition=Ready', '--timeout=120s', 'pod/idle']);
  });
  afterAll(async () => {
    await browser?.close();
    await kubectl?.run(['delete', 'namespace', namespace, '--ignore-not-found', '--wait=false']);
  });

  it(`shows and changes it, and nothing that only Oarlock serves${missing === undefined ? '' : ` (${missing})`}`, async () => {
    await withConsole(browser, ['--kubeconfig', kubeconfig ?? ''], (view, origin) =>
      useAnotherServer(view, origin, { kubectl, namespace }),
    );
  });
});
