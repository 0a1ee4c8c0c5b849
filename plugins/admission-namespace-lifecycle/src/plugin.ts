import { namespaces } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { Namespace } from '@oarlock/api/types/core-v1';
import { Admission, allow, deny, type AdmissionRequest, type Verdict } from '@oarlock/spi/admission';
import { Client, Informers } from '@oarlock/spi/client';
import { z } from 'zod';

/** Nothing is created in a namespace that is not there or is going; the namespaces the cluster lives by are not deleted. */
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
    const judge = async ({ operation, resource, name, namespace }: AdmissionRequest): Promise<Verdict> => {
      if (resource.group === '' && resource.resource === 'namespaces') {
        return operation === 'DELETE' && immortal.has(name) ? deny('this namespace may not be deleted') : allow;
      }
      if (!resource.namespaced || operation !== 'CREATE') return allow;
      // access reviews say nothing of what is there
      if (resource.resource === 'localsubjectaccessreviews') return allow;
      const found = await find(namespace);
      if (found === undefined) return deny(`namespaces "${namespace}" not found`, { reason: 'NotFound' });
      return found.metadata?.deletionTimestamp === undefined && found.status?.phase !== 'Terminating'
        ? allow
        : deny(`unable to create new content in namespace ${namespace} because it is being terminated`);
    };

    return { matches: [{ resources: ['*'], operations: ['CREATE', 'DELETE'] }], validate: judge };
  },
});
