import { PluginHost } from '@oarlock/kernel/plugin-host';
import { builtin } from '@oarlock/scheduler/plugins/registry';
import { Client, Events, Informers } from '@oarlock/spi/client';
import { Scheduling } from '@oarlock/spi/scheduling';
import { schedulingContract } from '@oarlock/spi/scheduling/contract';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { expect } from 'vitest';

// runs the contract of scheduling plugins against every built-in one
for (const plugin of builtin) {
  schedulingContract(plugin.id, () => {
    const clock = new FakeClock();
    const api = memoryApi({ clock });
    const [created] = new PluginHost({ clock })
      .provide(Client, api.client())
      .provide(Informers, api.informers)
      .provide(Events, { recorder: () => ({ event() {} }) })
      .add({ plugin })
      .get(Scheduling);
    if (created === undefined) throw new Error(`${plugin.id} was not created`);
    expect(plugin.declares?.['plugin']).toBe(created.name);
    return { plugin: created, dispose: () => api.stop() };
  });
}
