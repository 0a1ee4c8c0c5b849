import { invalid } from '@oarlock/api/field/field-error';
import { invalidStatus } from '@oarlock/api/field/invalid-status';
import { forbidden, notFound } from '@oarlock/api/status';
import { attributesOf, runAuthorizers } from '../../authorization/authorization.ts';
import type { RequestContext } from '../request/request-context.ts';
import type { RegistryDependencies } from '../../registry/registry-dependencies.ts';
import { keyOf, type ServedKind } from '../../registry/served-kind.ts';

const verb = 'unsafe-delete-ignore-read-errors';
const option = 'ignoreStoreReadErrorWithClusterBreakingPotential';

/**
 * Deletes an object that cannot be decrypted or decoded, without admission, preconditions and finalizers (KEP-3926).
 * @throws StatusError Forbidden if the caller may not use the verb `unsafe-delete-ignore-read-errors`; Invalid if the object can be read
 */
export async function unsafeDelete({ authz, objects }: RegistryDependencies, kind: ServedKind, context: RequestContext): Promise<void> {
  const { request } = context;
  const { namespace, name } = request;
  const { decision, reason = '' } = await runAuthorizers(authz, { ...attributesOf(request), verb });
  const { group, resource } = kind.resource;
  if (decision !== 'allow') throw forbidden(kind.resource, name, `not permitted to do "${verb}", reason: ${reason}`);
  switch (await objects.deleteUnreadable(kind.storedKind, keyOf(kind, namespace, name))) {
    case 'deleted':
      return;
    case 'absent':
      throw notFound(kind.resource, name);
    case 'readable':
      throw invalidStatus({ group, kind: resource, name }, [
        invalid(option, true, 'is exclusively used to delete corrupt object(s), try again by removing this option'),
      ]);
  }
}
