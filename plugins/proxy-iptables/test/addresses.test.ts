import { silentLogger } from '@oarlock/primitives/logger';
import { sourceAddressContract } from '@oarlock/testing/network/source-address-contract';
import { inNetworkNamespace, isInNetworkNamespace } from '@oarlock/testing/network/network-namespace';
import { iptablesProxy } from '../src/iptables-proxy.ts';

if (!isInNetworkNamespace) inNetworkNamespace(import.meta.url);
else
  sourceAddressContract(async (options) => {
    const proxy = iptablesProxy({ ...options, families: ['ip'], log: silentLogger });
    await proxy.start();
    return proxy;
  });
