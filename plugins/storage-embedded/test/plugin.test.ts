import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Storage } from '@oarlock/spi/storage';
import { expect, it } from 'vitest';
import plugin from '../src/plugin.ts';
import { makeDirectory } from './support/directory.ts';

it('reports its disk usage in the metric that Kubernetes has for it', async () => {
  const directory = await makeDirectory();
  const host = new PluginHost().add({ plugin, config: { directory: directory.path } });
  try {
    await host.start();
    await host.get(Storage).commit([{ key: '/a', value: Buffer.alloc(10_000, 'x') }], []);
    const text = (await host.plugins[0]?.metrics.getSingleMetricAsString('apiserver_storage_size_bytes')) ?? '';
    const [, bytes] = /^apiserver_storage_size_bytes\{storage_cluster_id="embedded"\} (\d+)$/m.exec(text) ?? [];
    expect(Number(bytes)).toBeGreaterThan(10_000);
  } finally {
    await host.stop();
    await directory.remove();
  }
});
