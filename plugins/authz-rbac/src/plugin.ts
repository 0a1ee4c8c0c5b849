import { Authz } from '@oarlock/spi/authz';
import { Client, Informers } from '@oarlock/spi/client';
import { z } from 'zod';
import { RbacAuthorizer } from './rbac-authorizer.ts';
import { RoleCaches } from './role-caches.ts';

/** Role-based access control (RBAC) with Kubernetes' default roles. Decides by caches of roles and bindings; waits until they are synced. */
export default Authz.plugin({
  id: 'authz-rbac',
  declares: { bootstrapPolicy: true },
  config: z.strictObject({
    /** Creates and completes the default roles and bindings at startup. */
    defaults: z.boolean().default(true),
    /** Allows nodes to list pods, namespaces and policies, to enforce NetworkPolicies. Set by a composition with `policy`. */
    nodePolicies: z.boolean().default(false),
    /** Allows nodes to create local volumes. Set by a composition with `volume-csi`. */
    nodeVolumes: z.boolean().default(false),
  }),
  needs: { client: Client, informers: Informers },
  create: ({ client, informers, config }, { clock, log, signal }) =>
    new RbacAuthorizer({ config, caches: new RoleCaches(informers), client, clock, log, signal }),
});
