import { silentLogger } from '@oarlock/primitives/logger';
import { sourceAddressContract } from '@oarlock/testing/network/source-address-contract';
import { inNetworkNamespace, isInNetworkNamespace } from '@oarlock/testing/network/network-namespace';
import { nftablesProxy } from '../src/nftables-proxy.ts';

if (!isInNetworkNamespace) inNetworkNamespace(import.meta.url);
else
  sourceAddressContract(async (options) => {
    const proxy = nftablesProxy({ ...options, families: ['ip'], log: silentLogger });
    await proxy.start();
    return proxy;
  });
