import { jsonEqual } from '@oarlock/api/json/json';
import { kindOf, parseApiVersion } from '@oarlock/api/kinds';
import type { OwnerReference } from '@oarlock/api/object';
import { Admission, allow, deny, type AdmissionRequest, type AdmissionDecision } from '@oarlock/spi/admission';
import { Authz, authorizeChain, type Authorizer } from '@oarlock/spi/authz';
import { Client } from '@oarlock/spi/client';
import { z } from 'zod';
import { discoveredKind } from './discovered-kind.ts';

interface Dependencies {
  readonly authz: readonly Authorizer[];
  readonly client: Client;
}

/** Returns true if the user may delete the object. Setting an ownerReference is equivalent: the garbage collector may then delete the object. */
async function mayDelete(
  authz: readonly Authorizer[],
  { identity, resource, subresource, namespace, name }: AdmissionRequest,
): Promise<AdmissionDecision> {
  const { decision, reason: because } = await authorizeChain(authz, {
    kind: 'resource',
    identity,
    verb: 'delete',
    group: resource.group,
    version: resource.version,
    resource: resource.resource,
    subresource,
    namespace,
    name,
  });
  return decision === 'allow' ? allow : deny(`cannot set an ownerRef on a resource you can't delete: ${because ?? ''}, <nil>`);
}

/** Returns true if the user may update the owner's finalizers, because blockOwnerDeletion delays the owner's deletion as a finalizer does. */
async function mayBlock(
  { authz, client }: Dependencies,
  { identity, namespace }: AdmissionRequest,
  { apiVersion, kind, name }: OwnerReference,
): Promise<AdmissionDecision> {
  const { group, version } = parseApiVersion(apiVersion);
  const owner = kindOf({ group, version, kind }) ?? (await discoveredKind(client, { group, version, kind }));
  if (owner === undefined)
    return deny(`cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion ${apiVersion} Kind ${kind}`);
  const { decision, reason: because } = await authorizeChain(authz, {
    kind: 'resource',
    identity,
    verb: 'update',
    group,
    version,
    resource: owner.resource,
    subresource: 'finalizers',
    namespace: owner.namespaced ? namespace : '',
    name,
  });
  return decision === 'allow'
    ? allow
    : deny(`cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: ${because ?? ''}, <nil>`);
}

/**
 * Requires the permission to delete the object for setting ownerReferences, and the permission to update the owner's finalizers for setting
 * blockOwnerDeletion (OwnerReferencesPermissionEnforcement).
 */
export default Admission.plugin({
  id: 'admission-owner-references-permission-enforcement',
  config: z.strictObject({}),
  needs: { authz: Authz, client: Client },
  create: ({ authz, client }) => ({
    matches: [{ resources: ['*'], operations: ['CREATE', 'UPDATE'] }],
    validate(request): AdmissionDecision | Promise<AdmissionDecision> {
      const { object, old, resource, subresource } = request;
      if (resource.group === '' && resource.resource === 'pods' && subresource === 'status') return allow;
      const next = object?.metadata?.ownerReferences ?? [];
      const before = old?.metadata?.ownerReferences ?? [];
      if (jsonEqual(next, before)) return allow;
      return (async () => {
        const verdict = await mayDelete(authz, request);
        if (!verdict.allowed) return verdict;
        for (const owner of next) {
          if (
            owner.blockOwnerDeletion !== true ||
            before.some(({ uid, blockOwnerDeletion }) => uid === owner.uid && blockOwnerDeletion === true)
          )
            continue;
          const blocks = await mayBlock({ authz, client }, request, owner);
          if (!blocks.allowed) return blocks;
        }
        return allow;
      })();
    },
  }),
});
