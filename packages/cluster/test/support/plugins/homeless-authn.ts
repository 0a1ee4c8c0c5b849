import { slot } from '@oarlock/kernel/slot';
import { Authn, abstained } from '@oarlock/spi/authn';
import { z } from 'zod';

const Directory = slot.one<{ find(name: string): string | undefined }>('directory/v1');

/** Needs a slot that no plugin provides. */
export default Authn.plugin({
  id: 'authn-homeless',
  config: z.strictObject({}),
  needs: { directory: Directory },
  create: () => ({ authenticate: () => abstained }),
});
