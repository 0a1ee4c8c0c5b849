import { Authz, type Attributes } from '@oarlock/spi/authz';
import { z } from 'zod';

/** An authorizer whose decisions the test supplies. */
export const openAuthz = (allowed: (attributes: Attributes) => boolean | Promise<boolean> = () => true) =>
  Authz.plugin({
    id: 'authz-test',
    config: z.strictObject({}),
    create: () => ({
      authorize(attributes) {
        const answer = allowed(attributes);
        const decision = (yes: boolean) => (yes ? ({ decision: 'allow', reason: 'test' } as const) : ({ decision: 'no-opinion' } as const));
        return answer instanceof Promise ? answer.then(decision) : decision(answer);
      },
    }),
  });
