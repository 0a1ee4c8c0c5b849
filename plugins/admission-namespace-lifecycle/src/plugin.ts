import { namespaces } from '@oarlock/api/resources';
import { forbidden, isStatus, notFound } from '@oarlock/api/status';
import type { Namespace } from '@oarlock/api/types/core-v1';
import { Admission, allow, deny, type AdmissionRequest, type AdmissionDecision } from '@oarlock/spi/admission';
import { Client, Informers } from '@oarlock/spi/client';
import { z } from 'zod';

/**
 * Rejects creates in namespaces that do not exist or are terminating, and deletes of system namespaces (NamespaceLifecycle). As upstream, creates
 * are checked in the mutating phase, so that a missing namespace is reported before the errors of other plugins.
 */
export default Admission.plugin({
  id: 'admission-namespace-lifecycle',
  config: z.strictObject({ immortal: z.array(z.string()).default(['default', 'kube-system', 'kube-public']) }),
  needs: { client: Client, informers: Informers },
  create({ config, client, informers }) {
    const immortal = new Set(config.immortal);
    const known = informers.forResource(namespaces);

    // the informer may not have a new namespace yet
    const find = async (name: string): Promise<Namespace | undefined> => {
      const cached = known.get(name);
      if (cached !== undefined) return cached;
      try {
        return await client.get(namespaces, { name });
      } catch (error) {
        if (isStatus(error, 'NotFound')) return undefined;
        throw error;
      }
    };
    const validate = ({
      operation,
      resource,
      name,
      namespace,
      object,
    }: AdmissionRequest): AdmissionDecision | Promise<AdmissionDecision> => {
      if (resource.group === '' && resource.resource === 'namespaces') {
        return operation === 'DELETE' && immortal.has(name) ? deny('this namespace may not be deleted') : allow;
      }
      if (!resource.namespaced || operation !== 'CREATE') return allow;
      // access reviews are not stored
      if (resource.resource === 'localsubjectaccessreviews') return allow;
      const cached = known.get(namespace);
      const named = () => object?.metadata?.name ?? object?.metadata?.generateName ?? name;
      if (cached !== undefined) return isTerminating(cached) ? namespaceTerminating(resource, named(), namespace) : allow;
      return find(namespace).then((found) => {
        if (found === undefined) return toDenial(notFound(namespaces, namespace));
        return isTerminating(found) ? namespaceTerminating(resource, named(), namespace) : allow;
      });
    };

    return {
      matches: [{ resources: ['*'], operations: ['CREATE', 'DELETE'] }],
      mutate(request) {
        const verdict = validate(request);
        const { object } = request;
        if (object === undefined) return verdict;
        return verdict instanceof Promise
          ? verdict.then((decision) => (decision.allowed ? object : decision))
          : verdict.allowed
            ? object
            : verdict;
      },
      validate: validate,
    };
  },
});

const isTerminating = ({ metadata, status }: Namespace): boolean =>
  metadata?.deletionTimestamp !== undefined || status?.phase === 'Terminating';
const toDenial = ({ status, message }: ReturnType<typeof notFound>): AdmissionDecision => deny(message, { status });

function namespaceTerminating(resource: AdmissionRequest['resource'], name: string, namespace: string): AdmissionDecision {
  const { status } = forbidden(resource, name, `unable to create new content in namespace ${namespace} because it is being terminated`);
  const cause = { reason: 'NamespaceTerminating', message: `namespace ${namespace} is being terminated`, field: 'metadata.namespace' };
  return deny(status.message ?? '', { status: { ...status, details: { ...status.details, causes: [cause] } } });
}
