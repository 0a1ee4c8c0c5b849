import { PluginHost } from '@oarlock/kernel/plugin-host';
import plugin from '@oarlock/service-proxy/plugin';
import { Client, Informers } from '@oarlock/spi/client';
import { Cluster } from '@oarlock/spi/cluster';
import { testFacts } from '@oarlock/testing/controller-contract';
import { Proxy } from '@oarlock/spi/proxy';
import { Roles } from '@oarlock/spi/role';
import { roleContract } from '@oarlock/spi/role/contract';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { describe, expect, it } from 'vitest';

roleContract('proxy', () => {
  const clock = new FakeClock();
  const api = memoryApi({ clock });
  const [role] = new PluginHost({ clock })
    .provide(Informers, api.informers)
    .provide(Client, api.client())
    .provide(Cluster, testFacts)
    .provide(Proxy, { apply: async () => {} })
    .add({ plugin, config: { nodeName: 'n1' } })
    .get(Roles);
  if (role === undefined) throw new Error('not created');
  return { role, settle: () => clock.advance(1_000), countResources: () => ({ timers: clock.pending }), dispose: () => api.stop() };
});

describe('proxy role', () => {
  it('is idle without a proxy plugin', async () => {
    const clock = new FakeClock();
    const api = memoryApi({ clock });
    const host = new PluginHost({ clock })
      .provide(Informers, api.informers)
      .provide(Client, api.client())
      .provide(Cluster, testFacts)
      .add({ plugin, config: { nodeName: 'n1' } });
    await host.start();
    expect(host.get(Roles)[0]?.checkHealth()).toEqual({ healthy: true });
    await host.stop();
    await api.stop();
  });
});
