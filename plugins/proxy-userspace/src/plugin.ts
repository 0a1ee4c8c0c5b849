import { Proxy } from '@oarlock/spi/proxy';
import { z } from 'zod';
import { UserspaceProxy } from './userspace-proxy.ts';

/** Services over plain sockets: TCP and UDP, round robin, no root. For clusters whose service addresses this host can bind, such as 127.0.0.0/8. */
export default Proxy.plugin({
  id: 'proxy-userspace',
  config: z.strictObject({
    /** Addresses that node ports listen on. */
    nodePortAddress: z.string().default('127.0.0.1'),
  }),
  create: ({ config }, { clock, log }) => new UserspaceProxy({ clock, log, nodePortAddress: config.nodePortAddress }),
});
