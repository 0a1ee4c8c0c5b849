import { unavailable } from '@oarlock/kernel/plugin';
import { Network } from '@oarlock/spi/network';
import { z } from 'zod';
import { __Class__ } from './network.ts';

export default Network.plugin({
  id: '__ID__',
  config: z.strictObject({}),
  declares: { namespace: 'node', podCIDR: '127.128.0.0/10', serviceCIDR: '127.96.0.0/16' },
  // remove the probe when the driver is implemented
  probe: async () => unavailable('__ID__ is a skeleton: its methods are not implemented yet'),
  create: () => new __Class__(),
});
