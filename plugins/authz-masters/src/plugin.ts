import { Authz, noOpinion } from '@oarlock/spi/authz';
import { z } from 'zod';

/** Allows every request of members of `system:masters`, regardless of later authorizers. */
export default Authz.plugin({
  id: 'authz-masters',
  config: z.strictObject({ groups: z.array(z.string()).default(['system:masters']) }),
  create({ config }) {
    const masters = new Set(config.groups);
    return {
      authorize: ({ identity }) => {
        const group = identity.groups.find((name) => masters.has(name));
        return group === undefined ? noOpinion : { decision: 'allow', reason: `member of ${group}` };
      },
    };
  },
});
