import { SharedInformerFactory } from '@oarlock/client/cache/shared-informer-factory';
import { loopbackClient, type LoopbackTransport } from '@oarlock/client/loopback-client';
import { slotOf, type Lifecycle, type Plugin } from '@oarlock/kernel/plugin';
import { Informers } from '@oarlock/spi/client';
import { Loopback } from '@oarlock/spi/loopback';
import { apiServer } from './component.ts';

/**
 * Returns a plugin with informers of its own, which start and stop with the plugin: each version of the plugin can add its indexers, which end with
 * that version.
 */
export function withDedicatedInformers(plugin: Plugin): Plugin {
  const own = Object.entries(plugin.needs).flatMap(([key, need]) => (slotOf(need).token === Informers.token ? [key] : []));
  if (own.length === 0) return plugin;
  const others = Object.fromEntries(Object.entries(plugin.needs).filter(([key]) => !own.includes(key)));
  return {
    ...plugin,
    needs: { ...others, [loopbackKey]: Loopback },
    create({ [loopbackKey]: loopback, ...dependencies }, context): Lifecycle {
      const { log, clock } = context;
      // the identity of shared informers: reads from a cache are not authorized
      const client = loopbackClient(loopback as LoopbackTransport, apiServer.identity, apiServer);
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
const loopbackKey = '(loopback of its informers)';
