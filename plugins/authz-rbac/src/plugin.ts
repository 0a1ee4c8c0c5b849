import { policyRulePattern } from '@oarlock/api/rbac/policy-rule-text';
import { Authz } from '@oarlock/spi/authz';
import { Client, Informers } from '@oarlock/spi/client';
import { z } from 'zod';
import { RbacAuthorizer } from './rbac-authorizer.ts';
import { RoleCaches } from './role-caches.ts';

/**
 * Authorizes requests by role-based access control (RBAC) with Kubernetes' default roles. Reads roles and bindings from caches; requests wait until
 * the caches are synced.
 */
export default Authz.plugin({
  id: 'authz-rbac',
  declares: { bootstrapPolicy: true },
  config: z.strictObject({
    /** True to create and complete the default roles and bindings at startup. */
    defaults: z.boolean().default(true),
    /** True to let nodes list pods, namespaces and NetworkPolicies, so that they can enforce NetworkPolicies. A composition with `policy` sets it. */
    nodePolicies: z.boolean().default(false),
    /** True to let nodes create local volumes. A composition with `volume-csi` sets it. */
    nodeVolumes: z.boolean().default(false),
    /** Rules of controllers that are not built in, by service account in kube-system. The composition sets them from `declares` of the plugins. */
    controllers: z
      .record(z.string().min(1), z.array(z.string().regex(policyRulePattern, 'a rule is `verbs | groups | resources | names`')))
      .default({}),
  }),
  needs: { client: Client, informers: Informers },
  create: ({ client, informers, config }, { clock, log, signal }) =>
    new RbacAuthorizer({ config, caches: new RoleCaches(informers), client, clock, log, signal }),
});
