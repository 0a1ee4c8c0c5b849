import { unavailable } from '@oarlock/kernel/plugin';
import { Runtime } from '@oarlock/spi/runtime';
import { z } from 'zod';
import { __Class__ } from './runtime.ts';

export default Runtime.plugin({
  id: '__ID__',
  config: z.strictObject({}),
  declares: { invokesCni: false, images: false, survivesRestart: false, networkNamespaces: false },
  // remove the probe when the runtime is implemented
  probe: async () => unavailable('__ID__ is a skeleton: its methods are not implemented yet'),
  create: () => new __Class__(),
});
