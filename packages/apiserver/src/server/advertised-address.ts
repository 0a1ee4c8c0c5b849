import { isIP } from 'node:net';
import { networkInterfaces } from 'node:os';
import type { ClusterFacts } from '@oarlock/spi/cluster';
import type { ApiServerConfig } from './server-options.ts';

const isLoopback = (address: string) => address.startsWith('127.') || address === '::1';

/**
 * Returns the address of this server in the endpoints of the Service `kubernetes`. A loopback address is used only if the address ranges of the
 * cluster are on loopback: Endpoints must not contain loopback addresses, and pods could not reach them.
 */
export function advertisedAddress(config: Pick<ApiServerConfig, 'advertiseAddress' | 'listen'>, cluster: ClusterFacts): string {
  const isClusterOnLoopback = cluster.serviceCIDRs.some(isLoopback);
  const isUsable = (address: string | undefined): address is string =>
    address !== undefined &&
    isIP(address) !== 0 &&
    address !== '0.0.0.0' &&
    address !== '::' &&
    (isClusterOnLoopback || !isLoopback(address));
  const externalInterface = Object.values(networkInterfaces())
    .flatMap((addresses) => addresses ?? [])
    .find(({ internal, family }) => !internal && family === 'IPv4');
  return [config.advertiseAddress, config.listen.address, externalInterface?.address].find(isUsable) ?? '127.0.0.1';
}
