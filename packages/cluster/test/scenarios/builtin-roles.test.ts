import { SharedInformerFactory } from '@oarlock/client/cache/shared-informer-factory';
import controllers from '@oarlock/controllers/plugin';
import { builtin as loops } from '@oarlock/controllers/builtin';
import type { Plugin } from '@oarlock/kernel/plugin';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import scheduler from '@oarlock/scheduler/plugin';
import { builtin as chain } from '@oarlock/scheduler/plugins/registry';
import { Client, Events, Informers } from '@oarlock/spi/client';
import { Cluster, Keys } from '@oarlock/spi/cluster';
import { Roles } from '@oarlock/spi/role';
import { roleContract, type RoleFixture } from '@oarlock/spi/role/contract';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi, sequence } from '@oarlock/testing/memory-api';
import { clusterFacts, clusterKeys } from '../support/facts.ts';

/** Creates a role with its plugins, on an API server in memory. */
function fixture(plugin: Plugin, others: readonly Plugin[], config: unknown): RoleFixture {
  const clock = new FakeClock();
  const api = memoryApi({ clock });
  const informers = new SharedInformerFactory({ client: api.client(), clock, random: sequence(3) });
  informers.start();
  const host = new PluginHost({ clock })
    .provide(Client, api.client())
    .provide(Informers, informers)
    .provide(Events, { recorder: () => ({ event: () => {} }) })
    .provide(Cluster, clusterFacts)
    .provide(Keys, clusterKeys);
  for (const other of others) host.add({ plugin: other });
  const [role] = host.add({ plugin, config }).get(Roles);
  if (role === undefined) throw new Error('the role was not created');
  return {
    role,
    settle: () => clock.advance(1_000),
    countResources: () => ({ timers: clock.pending }),
    async dispose() {
      await informers.stop();
      await api.stop();
    },
  };
}

roleContract('controllers', () => fixture(controllers, loops, {}));
roleContract('controllers with an election', () => fixture(controllers, loops, { leaderElect: true }));
roleContract('scheduler', () => fixture(scheduler, chain, {}));
roleContract('scheduler with an election', () => fixture(scheduler, chain, { leaderElect: true }));
