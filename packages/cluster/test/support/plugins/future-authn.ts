import { slot } from '@oarlock/kernel/slot';
import { abstained, type Authenticator } from '@oarlock/spi/authn';
import { z } from 'zod';

/** A plugin for a later version of the slot. */
export default slot
  .chain<Authenticator>('authn/v2')
  .plugin({ id: 'authn-future', config: z.strictObject({}), create: () => ({ authenticate: () => abstained }) });
