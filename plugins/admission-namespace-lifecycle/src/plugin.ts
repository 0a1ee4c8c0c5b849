import { namespaces } from '@oarlock/api/resources';
import { forbidden, isStatus, notFound } from '@oarlock/api/status';
import type { Namespace } from '@oarlock/api/types/core-v1';
import { Admission, allow, deny, type AdmissionRequest, type Verdict } from '@oarlock/spi/admission';
import { Client, Informers } from '@oarlock/spi/client';
import { z } from 'zod';

/**
 * Nothing is created in a namespace that is not there or is going; the namespaces the cluster lives by are not deleted. As upstream's it judges
 * what is created before others look at it: that there is no namespace is said rather than what is missing in it.
 */
export default Admission.plugin({
  id: 'admission-namespace-lifecycle',
  config: z.strictObject({ immortal: z.array(z.string()).default(['default', 'kube-system', 'kube-public']) }),
  needs: { client: Client, informers: Informers },
  create({ config, client, informers }) {
    const immortal = new Set(config.immortal);
    const known = informers.of(namespaces);

    // the informer may not have heard yet of a namespace that was made a moment ago
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
    const judge = ({ operation, resource, name, namespace, object }: AdmissionRequest): Verdict | Promise<Verdict> => {
      if (resource.group === '' && resource.resource === 'namespaces') {
        return operation === 'DELETE' && immortal.has(name) ? deny('this namespace may not be deleted') : allow;
      }
      if (!resource.namespaced || operation !== 'CREATE') return allow;
      // access reviews say nothing of what is there
      if (resource.resource === 'localsubjectaccessreviews') return allow;
      const cached = known.get(namespace);
      const named = () => object?.metadata?.name ?? object?.metadata?.generateName ?? name;
      if (cached !== undefined) return isGoing(cached) ? going(resource, named(), namespace) : allow;
      return find(namespace).then((found) => {
        if (found === undefined) return refusal(notFound(namespaces, namespace));
        return isGoing(found) ? going(resource, named(), namespace) : allow;
      });
    };

    return {
      matches: [{ resources: ['*'], operations: ['CREATE', 'DELETE'] }],
      mutate(request) {
        const verdict = judge(request);
        const { object } = request;
        if (object === undefined) return verdict;
        return verdict instanceof Promise ? verdict.then((said) => (said.allowed ? object : said)) : verdict.allowed ? object : verdict;
      },
      validate: judge,
    };
  },
});

const isGoing = ({ metadata, status }: Namespace): boolean => metadata?.deletionTimestamp !== undefined || status?.phase === 'Terminating';
const refusal = ({ status, message }: ReturnType<typeof notFound>): Verdict => deny(message, { status });

function going(resource: AdmissionRequest['resource'], name: string, namespace: string): Verdict {
  const { status } = forbidden(resource, name, `unable to create new content in namespace ${namespace} because it is being terminated`);
  const cause = { reason: 'NamespaceTerminating', message: `namespace ${namespace} is being terminated`, field: 'metadata.namespace' };
  return deny(status.message ?? '', { status: { ...status, details: { ...status.details, causes: [cause] } } });
}
