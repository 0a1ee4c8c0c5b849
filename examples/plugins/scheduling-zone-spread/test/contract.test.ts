import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Scheduling } from '@oarlock/spi/scheduling';
import { schedulingContract } from '@oarlock/spi/scheduling/contract';
import plugin from '../src/plugin.ts';

schedulingContract('scheduling-zone-spread', () => {
  const [created] = new PluginHost().add({ plugin }).get(Scheduling);
  if (created === undefined) throw new Error('the plugin was not created');
  return { plugin: created };
});
