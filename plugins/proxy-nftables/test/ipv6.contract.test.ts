import { silentLogger } from '@oarlock/kernel/logger';
import { census } from '@oarlock/nftables/census';
import { kernelProxyContract } from '@oarlock/testing/kernel-proxy-contract';
import { inOwnNetwork, isolated } from '@oarlock/testing/own-network';
import { nftablesProxy } from '../src/nftables-proxy.ts';

if (!isolated) inOwnNetwork(import.meta.url);
else
  kernelProxyContract(
    'proxy-nftables, IPv6 beside IPv4',
    { make: (options) => nftablesProxy({ ...options, log: silentLogger }), census },
    'ip6',
  );
