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
    /** The address that node ports listen on. */
    nodePortAddress: z.string().default('127.0.0.1'),
  }),
  declares: { bindsServiceAddresses: true },
  create: ({ config }, { clock, log }) => new UserspaceProxy({ clock, log, nodePortAddress: config.nodePortAddress }),
});
