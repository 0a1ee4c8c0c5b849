import { policyContract } from '@oarlock/spi/policy.contract';
import { inOwnNetwork, isolated } from '@oarlock/testing/own-network';
import { policyWorld } from './policy-world.ts';

if (!isolated) inOwnNetwork(import.meta.url);
else policyContract('policy-nftables with network-calico on one node', () => policyWorld(1, 'calico'));
