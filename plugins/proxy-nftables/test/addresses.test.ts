import { silentLogger } from '@oarlock/kernel/logger';
import { endpointAddresses } from '@oarlock/testing/endpoint-addresses';
import { inOwnNetwork, isolated } from '@oarlock/testing/own-network';
import { nftablesProxy } from '../src/nftables-proxy.ts';

if (!isolated) inOwnNetwork(import.meta.url);
else
  endpointAddresses(async (options) => {
    const proxy = nftablesProxy({ ...options, families: ['ip'], log: silentLogger });
    await proxy.start();
    return proxy;
  });
