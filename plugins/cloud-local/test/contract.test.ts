import { services } from '@oarlock/api/resources';
import type { Service } from '@oarlock/api/types/core-v1';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Informers } from '@oarlock/spi/client';
import { Cloud } from '@oarlock/spi/cloud';
import { cloudContract } from '@oarlock/spi/cloud/contract';
import { Cluster } from '@oarlock/spi/cluster';
import { testFacts } from '@oarlock/testing/controller-contract';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import plugin from '../src/plugin.ts';

const fixture = (addresses: readonly string[]) => async () => {
  const clock = new FakeClock();
  const api = memoryApi({ clock });
  const host = new PluginHost({ clock })
    .provide(Informers, api.informers)
    .provide(Cluster, testFacts)
    .add({ plugin, config: { addresses } });
  const cloud = host.get(Cloud);
  await api.informers.forResource(services).whenSynced();
  return {
    cloud,
    known: [],
    async wrote(service: Service) {
      api.seed(services, service);
      await clock.settle();
    },
    dispose: () => api.stop(),
  };
};

cloudContract('cloud-local', fixture(['10.9.0.0/28']));
cloudContract('cloud-local with one address', fixture(['10.9.0.1']));
