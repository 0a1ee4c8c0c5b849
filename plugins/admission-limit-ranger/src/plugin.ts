import { LiveLookup } from '@oarlock/admission-rules/live-lookup';
import { limitRanges } from '@oarlock/api/resources';
import type { LimitRange, Pod } from '@oarlock/api/types/core-v1';
import { Admission, allow, deny } from '@oarlock/spi/admission';
import { Client, Informers } from '@oarlock/spi/client';
import { z } from 'zod';
import { withDefaults } from './defaults.ts';
import { claimLimitViolation, podLimitViolation } from './limits.ts';

/** Applies the LimitRanges of a namespace to new pods and to PersistentVolumeClaims (LimitRanger). */
export default Admission.plugin({
  id: 'admission-limit-ranger',
  config: z.strictObject({}),
  needs: { client: Client, informers: Informers },
  create({ client, informers }, { clock }) {
    const ranges = new LiveLookup({ resource: limitRanges, client, informers, clock });
    const withRanges = <T>(namespace: string, use: (ranges: readonly LimitRange[]) => T): T | Promise<T> => {
      const found = ranges.list(namespace);
      return found instanceof Promise ? found.then(use) : use(found);
    };
    return {
      matches: [
        { resources: ['pods'], operations: ['CREATE'] },
        { resources: ['pods/resize'], operations: ['UPDATE'] },
        { resources: ['persistentvolumeclaims'], operations: ['CREATE', 'UPDATE'] },
      ],
      mutate({ object, namespace, resource, operation }) {
        if (object === undefined) return allow;
        if (resource.resource !== 'pods' || operation !== 'CREATE') return object;
        return withRanges(namespace, (ranges) => ranges.reduce<Pod>(withDefaults, object));
      },
      validate({ object, old, namespace, resource }) {
        // an object that is being deleted can be updated, for example to remove finalizers
        if (object === undefined || old?.metadata?.deletionTimestamp !== undefined) return allow;
        return withRanges(namespace, (ranges) => {
          for (const range of ranges) {
            const fault = resource.resource === 'pods' ? podLimitViolation(object, range) : claimLimitViolation(object, range);
            if (fault !== undefined) return deny(fault);
          }
          return allow;
        });
      },
    };
  },
});
