import type { NodeNetwork } from '@oarlock/spi/network';
import { networkContract } from '@oarlock/spi/network/contract';
import { __Class__ } from '../src/network.ts';

const node: NodeNetwork = {
  nodeName: 'n1',
  podCIDRs: ['127.144.0.0/24'],
  clusterCIDRs: ['127.128.0.0/10'],
  serviceCIDRs: ['127.96.0.0/16'],
  nodeIPs: ['127.0.0.1'],
};

networkContract('__ID__', async () => ({
  driver: new __Class__(),
  node,
  small: { ...node, podCIDRs: ['127.144.0.0/28'] },
  // features that the network will never have, with the reason
  unsupported: { restart: 'give the fixture restart, then take this away', crash: 'give the fixture crashAdd, then take this away' },
  dispose: async () => {},
}));
