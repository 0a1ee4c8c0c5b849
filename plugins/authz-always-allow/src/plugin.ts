import { Authz } from '@oarlock/spi/authz';
import { z } from 'zod';

/** Allows every request. For test clusters without sensitive data. */
export default Authz.plugin({
  id: 'authz-always-allow',
  config: z.strictObject({
    /** The groups to which the plugin applies; by default all users. */
    groups: z.array(z.string().min(1)).min(1).default(['system:authenticated', 'system:unauthenticated']),
  }),
  create({ config }) {
    const groups = new Set(config.groups);
    return {
      authorize: ({ identity }) =>
        identity.groups.some((group) => groups.has(group))
          ? { decision: 'allow', reason: 'everything is allowed' }
          : { decision: 'no-opinion' },
      rulesFor: ({ groups: own }) =>
        own.some((group) => groups.has(group))
          ? { resources: [{ apiGroups: ['*'], resources: ['*'], verbs: ['*'] }], paths: [{ nonResourceURLs: ['*'], verbs: ['*'] }] }
          : { resources: [], paths: [] },
    };
  },
});
