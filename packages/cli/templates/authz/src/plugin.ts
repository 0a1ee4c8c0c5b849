import { Authz, noOpinion } from '@oarlock/spi/authz';
import { z } from 'zod';

const reading = new Set(['get', 'list', 'watch']);

/** Lets the members of one group read everything but Secrets. On all else it has no opinion: others may allow it. */
export default Authz.plugin({
  id: '__ID__',
  config: z.strictObject({ group: z.string().min(1).default('readers') }),
  create: ({ config: { group } }) => ({
    authorize(asked) {
      if (asked.kind !== 'resource' || !asked.identity.groups.includes(group)) return noOpinion;
      if (!reading.has(asked.verb) || asked.resource === 'secrets') return noOpinion;
      return { decision: 'allow', because: `members of ${group} may read` };
    },
  }),
});
