import { Cloud } from '@oarlock/spi/cloud';
import { z } from 'zod';

/** Gives each Service a host name below a domain, whose load balancer forwards the traffic. */
export default Cloud.plugin({
  id: '__ID__',
  declares: { loadBalancers: true },
  config: z.strictObject({ domain: z.string().min(1).default('apps.test') }),
  create: ({ config: { domain } }) => ({
    name: '__NAME__',
    loadBalancers: {
      // calls may be repeated: the name is derived from the Service, so no state is needed
      ensure: async ({ metadata }) => ({ ingress: [{ hostname: `${metadata?.name}.${metadata?.namespace}.${domain}` }] }),
      remove: async () => {},
    },
  }),
});
