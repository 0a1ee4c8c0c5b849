import { optional } from '@oarlock/kernel/slot';
import { Informers } from '@oarlock/spi/client';
import { Proxy } from '@oarlock/spi/proxy';
import { Roles } from '@oarlock/spi/role';
import { z } from 'zod';
import { ServiceProxyLoop } from './service-proxy-loop.ts';

/** The role that keeps a node's service proxy in step with Services and EndpointSlices. Without a proxy plugin it has nothing to do. */
export default Roles.plugin({
  id: 'proxy',
  config: z.strictObject({ nodeName: z.string().min(1), minSyncMs: z.number().int().min(0).max(60_000).default(20) }),
  needs: { informers: Informers, proxy: optional(Proxy) },
  create({ config, informers, proxy }, { clock, log, tracer }) {
    if (proxy === undefined) return { name: 'proxy', health: () => ({ healthy: true }) };
    const loop = new ServiceProxyLoop({ informers, proxy, nodeName: config.nodeName, minSyncMs: config.minSyncMs, clock, log, tracer });
    return {
      name: 'proxy',
      health: () => (loop.error === undefined ? { healthy: true } : { healthy: false, because: loop.error }),
      start: (signal) => loop.start(signal),
      stop: () => loop.stop(),
    };
  },
});
