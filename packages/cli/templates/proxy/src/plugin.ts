import { unavailable } from '@oarlock/kernel/plugin';
import { Proxy } from '@oarlock/spi/proxy';
import { z } from 'zod';
import { __Class__ } from './proxy.ts';

export default Proxy.plugin({
  id: '__ID__',
  config: z.strictObject({}),
  // remove the probe when the proxy is implemented
  probe: async () => unavailable('__ID__ is a skeleton: its methods are not implemented yet'),
  create: () => new __Class__(),
});
