import { SharedInformers } from '@oarlock/client/informers';
import { loopbackClient, type LoopbackSwitchboard } from '@oarlock/client/loopback-client';
import { slotOf, type Lifecycle, type Plugin } from '@oarlock/kernel/plugin';
import { Informers } from '@oarlock/spi/client';
import { Loopback } from '@oarlock/spi/loopback';
import { apiServer } from '../parts.ts';

/**
 * The same plugin with informers that nobody else has, which come and go with it: each version may index them as it likes, and leaves
 * nothing behind.
 */
export function withOwnInformers(plugin: Plugin): Plugin {
  const own = Object.entries(plugin.needs).flatMap(([key, need]) => (slotOf(need).token === Informers.token ? [key] : []));
  if (own.length === 0) return plugin;
  const others = Object.fromEntries(Object.entries(plugin.needs).filter(([key]) => !own.includes(key)));
  return {
    ...plugin,
    needs: { ...others, [hidden]: Loopback },
    create({ [hidden]: loopback, ...given }, context): Lifecycle {
      const { log, clock } = context;
      // as those that are shared: what is read from a cache is not asked for by anybody
      const client = loopbackClient(loopback as LoopbackSwitchboard, apiServer.identity, apiServer);
      const informers = new SharedInformers({ client, log, clock });
      const made = plugin.create({ ...given, ...Object.fromEntries(own.map((key) => [key, informers])) }, context);
      const { start, stop } = made;
      return Object.assign(made, {
        async start(signal: AbortSignal) {
          informers.start();
          await start?.call(made, signal);
        },
        async stop() {
          await stop?.call(made);
          await informers.stop();
        },
      });
    },
  };
}
const hidden = '(loopback of its informers)';
