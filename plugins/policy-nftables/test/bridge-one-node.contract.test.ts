import { policyContract } from '@oarlock/spi/policy/contract';
import { inNetworkNamespace, isInNetworkNamespace } from '@oarlock/testing/network/network-namespace';
import { policyWorld } from './support/policy-environment.ts';

if (!isInNetworkNamespace) inNetworkNamespace(import.meta.url);
else policyContract('policy-nftables with network-bridge on one node', () => policyWorld(1, 'bridge'));
