import { Authz } from '@oarlock/spi/authz';
import { z } from 'zod';

/** Nobody may do anything that no plugin before this one has allowed. */
export default Authz.plugin({
  id: 'authz-always-deny',
  config: z.strictObject({}),
  create: () => ({
    authorize: () => ({ decision: 'deny', because: 'Everything is forbidden.' }),
    rulesFor: () => ({ resources: [], paths: [] }),
  }),
});
