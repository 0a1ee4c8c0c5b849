import { optional } from '@oarlock/kernel/slot';
import { Client, Informers } from '@oarlock/spi/client';
import { Cluster } from '@oarlock/spi/cluster';
import { Dns } from '@oarlock/spi/dns';
import { Proxy } from '@oarlock/spi/proxy';
import { Roles } from '@oarlock/spi/role';
import { z } from 'zod';
import { ClusterDnsController } from './dns/cluster-dns-controller.ts';
import { DnsService } from './dns/dns-service.ts';
import { ProxyHealthServer } from './health/proxy-health-server.ts';
import { ProxyMetrics } from './proxy-metrics.ts';
import { ServiceHealthServer } from './health/service-health-server.ts';
import { ServiceProxyController } from './service-proxy-controller.ts';

const address = z.string().regex(/^(?:[0-9.]+|\[[0-9a-fA-F:]+\]):\d{1,5}$/, 'an address such as 0.0.0.0:10256');

/**
 * The role that applies Services and EndpointSlices to the service proxy and the cluster DNS of a node. The role does nothing if neither slot
 * has a plugin.
 */
export default Roles.plugin({
  id: 'proxy',
  config: z.strictObject({
    nodeName: z.string().min(1),
    minSyncMs: z.number().int().min(0).max(60_000).default(20),
    /** Address of the health server for load balancers (kube-proxy: 0.0.0.0:10256). If absent, the health server does not run. */
    healthzBindAddress: address.optional(),
    /** Address of the metrics server (kube-proxy: 127.0.0.1:10249). If absent, only `/metrics` of the process serves the metrics. */
    metricsBindAddress: address.optional(),
  }),
  needs: { informers: Informers, client: Client, facts: Cluster, proxy: optional(Proxy), dns: optional(Dns) },
  create({ config, informers, client, facts, proxy, dns }, { clock, log, tracer, metrics: registry }) {
    const { nodeName, minSyncMs, healthzBindAddress, metricsBindAddress } = config;
    const metrics = new ProxyMetrics(registry);
    const health = new ServiceHealthServer({ healthy: () => services?.error === undefined, log });
    const services: ServiceProxyController | undefined =
      proxy && new ServiceProxyController({ informers, proxy, nodeName, minSyncMs, clock, log, tracer, health, metrics });
    const server =
      services && new ProxyHealthServer({ services, mode: proxy?.mode, registry, clock, healthzBindAddress, metricsBindAddress });
    const names = dns && {
      loop: new ClusterDnsController({ informers, dns, minSyncMs, clock, log }),
      service: new DnsService({ client, informers, dns, serviceIP: facts.dnsServiceIP, nodeName, clock, log }),
    };
    return {
      name: 'proxy',
      checkHealth() {
        const because = services?.error ?? names?.loop.error;
        return because === undefined ? { healthy: true } : { healthy: false, reason: because };
      },
      async start(signal) {
        names?.loop.start(signal);
        names?.service.start();
        await server?.start();
        await services?.start(signal);
      },
      async stop() {
        await names?.service.stop();
        await names?.loop.stop();
        await services?.stop();
        await health.stop();
        await server?.stop();
      },
    };
  },
});
