import { Authn } from '@oarlock/spi/authn';
import { Authz, noOpinion } from '@oarlock/spi/authz';
import { z } from 'zod';

export default Authz.plugin({
  id: 'authz-needy',
  config: z.strictObject({}),
  needs: { authn: Authn },
  create: () => ({ authorize: () => noOpinion }),
});
