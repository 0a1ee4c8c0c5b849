import { Authn, abstained } from '@oarlock/spi/authn';
import { Authz } from '@oarlock/spi/authz';
import { z } from 'zod';

/** Needs the authorizers, which need the authenticators: a cycle with `needy-authz`. */
export default Authn.plugin({
  id: 'authn-needy',
  config: z.strictObject({}),
  needs: { authz: Authz },
  create: () => ({ authenticate: () => abstained }),
});
