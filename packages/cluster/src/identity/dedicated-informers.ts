import { SharedInformerFactory } from '@oarlock/client/cache/shared-informer-factory';
import { loopbackClient, type LoopbackTransport } from '@oarlock/client/loopback-client';
import { slotOf, type Lifecycle, type Plugin } from '@oarlock/kernel/plugin';
import { Client, Informers } from '@oarlock/spi/client';
import { Loopback } from '@oarlock/spi/loopback';
import { withNeeds } from '../hosting/declared-needs.ts';
import { apiServer } from './component.ts';

/**
 * Returns a plugin with informers of its own, which start and stop with the plugin: each version of the plugin can add its indexers, which end with
 * that version. In a process without an API server (`isRemote`), the informers use the client of the process.
 */
export function withDedicatedInformers(plugin: Plugin, isRemote = false): Plugin {
  const own = Object.entries(plugin.needs).flatMap(([key, need]) => (slotOf(need).token === Informers.token ? [key] : []));
  if (own.length === 0) return plugin;
  const others = Object.fromEntries(Object.entries(plugin.needs).filter(([key]) => !own.includes(key)));
  return {
    ...withNeeds(plugin, { ...others, [accessKey]: isRemote ? Client : Loopback }),
    create({ [accessKey]: access, ...dependencies }, context): Lifecycle {
      const { log, clock } = context;
      // the identity of shared informers: reads from a cache are not authorized
      const client = isRemote ? (access as Client) : loopbackClient(access as LoopbackTransport, apiServer.identity, apiServer);
      const informers = new SharedInformerFactory({ client, log, clock });
      const instance = plugin.create({ ...dependencies, ...Object.fromEntries(own.map((key) => [key, informers])) }, context);
      const { start, stop } = instance;
      return Object.assign(instance, {
        async start(signal: AbortSignal) {
          informers.start();
          await start?.call(instance, signal);
        },
        async stop() {
          await stop?.call(instance);
          await informers.stop();
        },
      });
    },
  };
}
const accessKey = '(access of its informers)';
