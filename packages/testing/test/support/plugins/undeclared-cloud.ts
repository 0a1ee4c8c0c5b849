import { Cloud } from '@oarlock/spi/cloud';
import { z } from 'zod';

/** A provider with a part that the plugin does not declare. */
export default Cloud.plugin({
  id: 'cloud-undeclared',
  config: z.strictObject({}),
  create: () => ({ name: 'undeclared', nodes: { instance: async () => undefined } }),
});
