import { silentLogger } from '@oarlock/primitives/logger';
import { countObjects } from '@oarlock/nftables/object-counts';
import { kernelProxyContract } from '@oarlock/testing/network/kernel-proxy-contract';
import { inNetworkNamespace, isInNetworkNamespace } from '@oarlock/testing/network/network-namespace';
import { nftablesProxy } from '../src/nftables-proxy.ts';

if (!isInNetworkNamespace) inNetworkNamespace(import.meta.url);
else
  kernelProxyContract(
    'proxy-nftables, IPv6 beside IPv4',
    { make: (options) => nftablesProxy({ ...options, log: silentLogger }), census: countObjects },
    'ip6',
  );
