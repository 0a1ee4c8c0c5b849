import { silentLogger } from '@oarlock/kernel/logger';
import { endpointAddresses } from '@oarlock/testing/endpoint-addresses';
import { inOwnNetwork, isolated } from '@oarlock/testing/own-network';
import { iptablesProxy } from '../src/iptables-proxy.ts';

if (!isolated) inOwnNetwork(import.meta.url);
else
  endpointAddresses(async (options) => {
    const proxy = iptablesProxy({ ...options, families: ['ip'], log: silentLogger });
    await proxy.start();
    return proxy;
  });
