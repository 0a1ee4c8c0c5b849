import { nodes } from '@oarlock/api/resources';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Client } from '@oarlock/spi/client';
import { Cluster, Keys } from '@oarlock/spi/cluster';
import { Paths } from '@oarlock/spi/paths';
import { testFacts } from '@oarlock/testing/controller-contract';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { joinPath } from '../../src/paths/join-path.ts';

describe('a machine that joins under the name of a node', () => {
  const clock = new FakeClock();
  let api: ReturnType<typeof memoryApi>;
  let host: PluginHost;
  beforeEach(async () => {
    api = memoryApi({ clock });
    host = new PluginHost({ clock })
      .provide(Client, api.client())
      .provide(Cluster, testFacts)
      .provide(Keys, { caBundle: 'CA' } as never)
      .add({ plugin: joinPath, config: {} });
    await host.start();
  });
  afterEach(async () => {
    await host.stop();
    await api.stop();
  });
  const seed = (ready: 'True' | 'Unknown') =>
    api.seed(nodes, {
      metadata: { name: 'n1' },
      status: { conditions: [{ type: 'Ready', status: ready }], addresses: [{ type: 'InternalIP', address: '10.0.0.1' }] },
    });
  const join = async (nodeName: string, address: string) => {
    const [path] = host.get(Paths);
    const request = { method: 'POST', body: { nodeName, addresses: [address] }, identity: { name: 'system:bootstrap:a', groups: [] } };
    return path?.handle({ ...request, query: {}, path: '/oarlock/v1/join' } as never);
  };

  it('is rejected while that node is ready at another address', async () => {
    seed('True');
    expect(await join('n1', '10.0.0.2')).toMatchObject({
      code: 409,
      body: { message: expect.stringContaining('a node n1 that is ready exists at 10.0.0.1: choose another --node-name') },
    });
    expect(await join('n2', '10.0.0.2')).toMatchObject({ code: 200 });
  });

  it('replaces that node when it is not ready, or is the same machine', async () => {
    seed('True');
    expect(await join('n1', '10.0.0.1')).toMatchObject({ code: 200 });
    seed('Unknown');
    expect(await join('n1', '10.0.0.2')).toMatchObject({ code: 200 });
  });
});
