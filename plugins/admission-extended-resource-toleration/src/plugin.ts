import type { Pod, Toleration } from '@oarlock/api/types/core-v1';
import { Admission, allow } from '@oarlock/spi/admission';
import { z } from 'zod';

/** Returns true if the name is that of an extended resource: its domain is not one of Kubernetes' domains. */
function isExtended(name: string): boolean {
  const slash = name.indexOf('/');
  if (slash < 0 || name.startsWith('requests.')) return false;
  const domain = name.slice(0, slash);
  return domain !== 'kubernetes.io' && !domain.endsWith('.kubernetes.io');
}

/** Adds tolerations of the taints that are named after the extended resources that a pod requests (ExtendedResourceToleration). */
export default Admission.plugin({
  id: 'admission-extended-resource-toleration',
  config: z.strictObject({}),
  create: () => ({
    matches: [{ resources: ['pods'], operations: ['CREATE', 'UPDATE'] }],
    mutate({ object }) {
      if (object === undefined) return allow;
      const { spec }: Pod = object;
      if (spec === undefined) return object;
      const names = new Set(
        [...spec.containers, ...(spec.initContainers ?? [])]
          .flatMap(({ resources }) => Object.keys(resources?.requests ?? {}))
          .filter(isExtended),
      );
      const held = spec.tolerations ?? [];
      const missing = [...names]
        .sort()
        .filter((key) => !held.some((each) => each.key === key && each.operator === 'Exists' && !each.effect))
        .map((key): Toleration => ({ key, operator: 'Exists' }));
      return missing.length === 0 ? object : { ...object, spec: { ...spec, tolerations: [...held, ...missing] } };
    },
  }),
});
