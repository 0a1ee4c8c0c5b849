import { Authz, noOpinion } from '@oarlock/spi/authz';
import { z } from 'zod';

const readVerbs = new Set(['get', 'list', 'watch']);

/** Allows the members of one group to read everything except Secrets. It has no opinion on other requests: later authorizers decide. */
export default Authz.plugin({
  id: '__ID__',
  config: z.strictObject({ group: z.string().min(1).default('readers') }),
  create: ({ config: { group } }) => ({
    authorize(attributes) {
      if (attributes.kind !== 'resource' || !attributes.identity.groups.includes(group)) return noOpinion;
      if (!readVerbs.has(attributes.verb) || attributes.resource === 'secrets') return noOpinion;
      return { decision: 'allow', reason: `members of ${group} may read` };
    },
  }),
});
