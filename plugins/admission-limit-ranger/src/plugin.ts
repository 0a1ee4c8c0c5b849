import { limitRanges } from '@oarlock/api/resources';
import type { LimitRange, Pod } from '@oarlock/api/types/core-v1';
import { Admission, allow, deny } from '@oarlock/spi/admission';
import { Client, Informers } from '@oarlock/spi/client';
import { z } from 'zod';
import { withDefaults } from './defaults.ts';
import { claimFault, podFault } from './limits.ts';

/** Applies the LimitRanges of a namespace to new pods and to claims. */
export default Admission.plugin({
  id: 'admission-limit-ranger',
  config: z.strictObject({}),
  needs: { client: Client, informers: Informers },
  create({ client, informers }) {
    const known = informers.of(limitRanges);
    const rangesOf = async (namespace: string): Promise<readonly LimitRange[]> =>
      known.synced ? known.list(namespace) : (await client.list(limitRanges, { namespace })).items;
    return {
      matches: [
        { resources: ['pods'], operations: ['CREATE'] },
        { resources: ['pods/resize'], operations: ['UPDATE'] },
        { resources: ['persistentvolumeclaims'], operations: ['CREATE', 'UPDATE'] },
      ],
      async mutate({ object, namespace, resource, operation }) {
        if (object === undefined) return allow;
        if (resource.resource !== 'pods' || operation !== 'CREATE') return object;
        let pod: Pod = object;
        for (const range of await rangesOf(namespace)) pod = withDefaults(pod, range);
        return pod;
      },
      async validate({ object, old, namespace, resource }) {
        // what is going away may change to be let go
        if (object === undefined || old?.metadata?.deletionTimestamp !== undefined) return allow;
        for (const range of await rangesOf(namespace)) {
          const fault = resource.resource === 'pods' ? podFault(object, range) : claimFault(object, range);
          if (fault !== undefined) return deny(fault);
        }
        return allow;
      },
    };
  },
});
