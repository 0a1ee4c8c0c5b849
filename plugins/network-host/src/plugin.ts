import { createServer } from 'node:net';
import { Network } from '@oarlock/spi/network';
import { z } from 'zod';
import { HostNetwork } from './host-network.ts';
import { isLoopbackRange, loopbackRange } from './loopback-range.ts';

const podCIDR = '127.128.0.0/10';
const serviceCIDR = '127.96.0.0/16';

function usable(cidr: string): boolean {
  if (!isLoopbackRange(cidr)) return false;
  try {
    return loopbackRange(cidr).first > 0;
  } catch {
    return false;
  }
}

/** Returns true if a server can bind the address. Linux can bind all of 127.0.0.0/8, macOS only addresses that were added to lo0. */
function canBind(address: string): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen({ host: address, port: 0, exclusive: true }, () => server.close(() => resolve(true)));
  });
}

export default Network.plugin({
  id: 'network-host',
  config: z.strictObject({
    podCIDR: z.string().refine(usable, 'must be an IPv4 range in 127.0.0.0/8 outside 127.0.0.0/16').default(podCIDR),
    confDir: z.string().startsWith('/', 'must be an absolute path').nullable().default('/etc/cni/net.d'),
  }),
  declares: { namespace: 'node', podCIDR, serviceCIDR },
  create: ({ config }, { log, dataDir }) => new HostNetwork({ ...config, serviceCIDR, canBind }, { log, dataDir }),
});
