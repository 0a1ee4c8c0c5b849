import { Controllers } from '@oarlock/spi/controller';
import { z } from 'zod';

/** Does not declare the name that settings use for it. */
export default Controllers.plugin({
  id: 'controller-nameless',
  config: z.strictObject({}),
  create: () => ({ name: 'whatever', watches: [], reconcile: async () => undefined }),
});
