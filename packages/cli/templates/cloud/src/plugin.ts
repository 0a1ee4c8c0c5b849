import { Cloud } from '@oarlock/spi/cloud';
import { z } from 'zod';

/** Every Service answers at a host name of its own: the load balancer of that domain passes on what comes. */
export default Cloud.plugin({
  id: '__ID__',
  config: z.strictObject({ domain: z.string().min(1).default('apps.test') }),
  create: ({ config: { domain } }) => ({
    name: '__NAME__',
    loadBalancers: {
      // every call may come again: the name follows from the Service, so that nothing has to be remembered
      ensure: async ({ metadata }) => ({ ingress: [{ hostname: `${metadata?.name}.${metadata?.namespace}.${domain}` }] }),
      remove: async () => {},
    },
  }),
});
