// What it costs a request that a plugin of somebody else is guarded, can be replaced, is in a thread: `node --conditions=@oarlock/source --import @oxc-node/core/register packages/cluster/bench/hosting.ts`
import { resource } from '@oarlock/api/resource';
import { systemClock } from '@oarlock/kernel/clock';
import { silentLogger } from '@oarlock/kernel/logger';
import type { Plugin, PluginContext } from '@oarlock/kernel/plugin';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Admission, type AdmissionPlugin, type AdmissionRequest } from '@oarlock/spi/admission';
import { Client } from '@oarlock/spi/client';
import { Cluster } from '@oarlock/spi/cluster';
import { fileURLToPath } from 'node:url';
import { frontOf } from '../src/hosting/fronts.ts';
import { guardOf } from '../src/hosting/guard.ts';
import { isolated } from '../src/hosting/isolated.ts';
import { loadPlugin } from '../src/plugin-loader.ts';

const rounds = 20_000;
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
  cause: { traceId: '0'.repeat(32), spanId: '0'.repeat(16), traceFlags: 0 },
};

const loaded = await loadPlugin(
  fileURLToPath(new URL('../../../examples/plugins/admission-image-registries/src/plugin.ts', import.meta.url)),
  undefined,
);
if ('fault' in loaded) throw new Error(loaded.fault.message);
const config = { allowed: ['docker.io'] };
const options = { deadlineMs: 1_000, failurePolicy: 'Fail' as const };
const guard = (made: object, context: PluginContext): object => guardOf(Admission)?.(made, context, options) ?? made;
const front = frontOf(Admission);

async function hosted(plugin: Plugin, more: object = {}): Promise<{ readonly admission: AdmissionPlugin; stop(): Promise<void> }> {
  const host = new PluginHost({ clock: systemClock, log: silentLogger })
    .provide(Client, {} as never)
    .provide(Cluster, { name: 'bench' } as never);
  host.place({ plugin, config, ...more });
  await host.start();
  const [admission] = host.get(Admission);
  if (admission === undefined) throw new Error('the plugin was not created');
  return { admission, stop: () => host.stop() };
}

async function measure(title: string, plugin: Plugin, more: object, many: number): Promise<void> {
  const { admission, stop } = await hosted(plugin, more);
  const took: number[] = [];
  for (let repeat = 0; repeat < repeats; repeat++) {
    const began = performance.now();
    for (let round = 0; round < many; round++) {
      const verdict = admission.validate?.(request);
      if (verdict instanceof Promise) await verdict;
    }
    took.push(((performance.now() - began) * 1_000) / many);
  }
  console.log(
    `${title.padEnd(36)} ${Math.min(...took)
      .toFixed(2)
      .padStart(8)} us a request, ${Math.max(...took).toFixed(2)} at worst`,
  );
  await stop();
}

const { plugin, module } = loaded;
await measure('by itself', plugin, {}, rounds);
await measure('guarded', plugin, { wrap: guard }, rounds);
await measure('guarded, and can be replaced', plugin, { wrap: guard, ...(front && { front }) }, rounds);
await measure('in a thread', isolated(plugin, { module, config, deadlineMs: 10_000, memoryMiB: 128 }), {}, 2_000);
