import { optional } from '@oarlock/kernel/slot';
import { Cluster } from '@oarlock/spi/cluster';
import { Proxy } from '@oarlock/spi/proxy';
import { z } from 'zod';
import { UserspaceProxy } from './userspace-proxy.ts';

/**
 * Proxies Services over sockets of this process: TCP and UDP, round robin, without root. For clusters whose Service addresses this host can bind,
 * such as 127.0.0.0/8.
 */
export default Proxy.plugin({
  id: 'proxy-userspace',
  config: z.strictObject({
    /** The address that node ports listen on; by default that of the node. */
    nodePortAddress: z.string().optional(),
  }),
  declares: { bindsServiceAddresses: true },
  needs: { facts: optional(Cluster) },
  create: ({ config, facts }, { clock, log }) =>
    new UserspaceProxy({ clock, log, nodePortAddress: config.nodePortAddress ?? facts?.loopback?.nodeAddress ?? '127.0.0.1' }),
});
