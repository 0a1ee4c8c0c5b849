import { Authz } from '@oarlock/spi/authz';
import { z } from 'zod';

/** Denies every request that no earlier authorizer has allowed. */
export default Authz.plugin({
  id: 'authz-always-deny',
  config: z.strictObject({}),
  create: () => ({
    authorize: () => ({ decision: 'deny', reason: 'Everything is forbidden.' }),
    rulesFor: () => ({ resources: [], paths: [] }),
  }),
});
