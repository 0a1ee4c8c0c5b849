import { priorityClasses } from '@oarlock/api/resources';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { PriorityClass } from '@oarlock/api/types/scheduling-v1';
import type { PodGroup } from '@oarlock/api/types/scheduling-v1alpha2';
import { Admission, allow } from '@oarlock/spi/admission';
import { Client, Informers } from '@oarlock/spi/client';
import { z } from 'zod';
import { PriorityResolver, withOldPriority } from './priority-resolver.ts';

/** Sets the priority of pods from their PriorityClass, and allows only one default PriorityClass (Priority). */
export default Admission.plugin({
  id: 'admission-priority',
  config: z.strictObject({}),
  needs: { client: Client, informers: Informers },
  create({ client, informers }) {
    const resolver = new PriorityResolver(client, informers.forResource(priorityClasses));
    return {
      matches: [
        { resources: ['pods'], operations: ['CREATE', 'UPDATE'] },
        { resources: ['podgroups.scheduling.k8s.io'], operations: ['CREATE'] },
        { resources: ['priorityclasses.scheduling.k8s.io'], operations: ['CREATE', 'UPDATE'] },
      ],
      mutate({ operation, resource, object, old }) {
        if (object === undefined) return allow;
        if (resource.resource === 'podgroups') return resolver.resolvePodGroup(object as PodGroup);
        if (resource.resource !== 'pods') return object;
        return operation === 'CREATE' ? resolver.resolvePod(object) : withOldPriority(object, old as Pod | undefined);
      },
      validate({ resource, object }) {
        return resource.resource !== 'priorityclasses' || (object as PriorityClass | undefined)?.globalDefault !== true
          ? allow
          : resolver.checkOnlyDefault(object);
      },
    };
  },
});
