// Measures the cost per request of guarding a plugin, of the front that makes it replaceable, and of a worker thread. Run with
// `node --conditions=@oarlock/source --import @oxc-node/core/register packages/cluster/bench/hosting.ts`
import { resource } from '@oarlock/api/resource';
import { systemClock } from '@oarlock/primitives/clock';
import { silentLogger } from '@oarlock/primitives/logger';
import type { Plugin, PluginContext } from '@oarlock/kernel/plugin';
import type { PluginHealth } from '@oarlock/kernel/plugin-health';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Admission, type AdmissionPlugin, type AdmissionRequest } from '@oarlock/spi/admission';
import { Client } from '@oarlock/spi/client';
import { Cluster } from '@oarlock/spi/cluster';
import { fileURLToPath } from 'node:url';
import { frontOf } from '../src/hosting/front.ts';
import { guardOf } from '../src/hosting/internal/guard.ts';
import { GuardedCalls } from '../src/hosting/internal/guarded-calls.ts';
import { isolatePlugin } from '../src/hosting/internal/isolate-plugin.ts';
import { loadPlugin } from '../src/plugins/plugin-loader.ts';

const calls = 20_000;
const repeats = 5;

const containers = Array.from({ length: 3 }, (_, index) => ({ name: `c${index}`, image: 'nginx:1.27', env: [{ name: 'A', value: 'b' }] }));
const pod = {
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { namespace: 'default', name: 'web', labels: { app: 'web' } },
  spec: { containers },
};
const request: AdmissionRequest = {
  operation: 'CREATE',
  resource: resource('', 'v1', 'pods', 'Pod', true),
  subresource: '',
  namespace: 'default',
  name: 'web',
  object: pod,
  old: undefined,
  options: {},
  identity: { name: 'ada', groups: ['system:authenticated'] },
  dryRun: false,
  warn: () => {},
  annotate: () => {},
  spanContext: { traceId: '0'.repeat(32), spanId: '0'.repeat(16), traceFlags: 0 },
};

const loaded = await loadPlugin(
  fileURLToPath(new URL('../../../examples/plugins/admission-image-registries/src/plugin.ts', import.meta.url)),
  undefined,
);
if ('fault' in loaded) throw new Error(loaded.fault.message);
const config = { allowed: ['docker.io'] };
const limits = { mutate: 1_000, validate: 1_000 };
const guard = (instance: object, context: PluginContext, health: PluginHealth): object =>
  guardOf(Admission)?.(instance, context, { calls: new GuardedCalls(health, context.clock), limits, failurePolicy: 'Fail' }) ?? instance;
const front = frontOf(Admission);

async function startHosted(plugin: Plugin, more: object = {}): Promise<{ readonly admission: AdmissionPlugin; stop(): Promise<void> }> {
  const host = new PluginHost({ clock: systemClock, log: silentLogger })
    .provide(Client, {} as never)
    .provide(Cluster, { name: 'bench' } as never);
  host.add({ plugin, config, ...more });
  await host.start();
  const [admission] = host.get(Admission);
  if (admission === undefined) throw new Error('the plugin was not created');
  return { admission, stop: () => host.stop() };
}

async function measure(title: string, plugin: Plugin, more: object, count: number): Promise<void> {
  const { admission, stop } = await startHosted(plugin, more);
  const times: number[] = [];
  for (let repeat = 0; repeat < repeats; repeat++) {
    const startedAt = performance.now();
    for (let call = 0; call < count; call++) {
      const decision = admission.validate?.(request);
      if (decision instanceof Promise) await decision;
    }
    times.push(((performance.now() - startedAt) * 1_000) / count);
  }
  console.log(
    `${title.padEnd(36)} ${Math.min(...times)
      .toFixed(2)
      .padStart(8)} us per request, worst ${Math.max(...times).toFixed(2)} us`,
  );
  await stop();
}

const { plugin, module } = loaded;
await measure('not hosted', plugin, {}, calls);
await measure('guarded', plugin, { decorate: guard }, calls);
await measure('guarded and replaceable', plugin, { decorate: guard, ...(front && { makeSwappable: front }) }, calls);
await measure('in a worker thread', isolatePlugin(plugin, { module, config, limits, memoryMiB: 128, where: 'thread' }), {}, 2_000);
