import { Controllers } from '@oarlock/spi/controller';
import { z } from 'zod';

/** Says nowhere by what name settings know it. */
export default Controllers.plugin({
  id: 'controller-nameless',
  config: z.strictObject({}),
  create: () => ({ name: 'whatever', watches: [], reconcile: async () => undefined }),
});
