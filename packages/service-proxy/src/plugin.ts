import { optional } from '@oarlock/kernel/slot';
import { Client, Informers } from '@oarlock/spi/client';
import { Cluster } from '@oarlock/spi/cluster';
import { Dns } from '@oarlock/spi/dns';
import { Proxy } from '@oarlock/spi/proxy';
import { Roles } from '@oarlock/spi/role';
import { z } from 'zod';
import { ClusterDnsLoop } from './cluster-dns-loop.ts';
import { DnsService } from './dns-service.ts';
import { ServiceProxyLoop } from './service-proxy-loop.ts';

/** The role that keeps a node's service proxy and its DNS in step with Services and EndpointSlices. Without plugins for them it has nothing to do. */
export default Roles.plugin({
  id: 'proxy',
  config: z.strictObject({ nodeName: z.string().min(1), minSyncMs: z.number().int().min(0).max(60_000).default(20) }),
  needs: { informers: Informers, client: Client, facts: Cluster, proxy: optional(Proxy), dns: optional(Dns) },
  create({ config: { nodeName, minSyncMs }, informers, client, facts, proxy, dns }, { clock, log, tracer }) {
    const services = proxy && new ServiceProxyLoop({ informers, proxy, nodeName, minSyncMs, clock, log, tracer });
    const names = dns && {
      loop: new ClusterDnsLoop({ informers, dns, minSyncMs, clock, log }),
      service: new DnsService({ client, dns, serviceIP: facts.dnsServiceIP, nodeName, clock, log }),
    };
    return {
      name: 'proxy',
      health() {
        const because = services?.error ?? names?.loop.error;
        return because === undefined ? { healthy: true } : { healthy: false, because };
      },
      async start(signal) {
        names?.loop.start(signal);
        names?.service.start();
        await services?.start(signal);
      },
      async stop() {
        await names?.service.stop();
        await names?.loop.stop();
        await services?.stop();
      },
    };
  },
});
