import type { Node } from '@oarlock/api/types/core-v1';
import { Admission, allow } from '@oarlock/spi/admission';
import { z } from 'zod';

const key = 'node.kubernetes.io/not-ready';

/** Adds the taint not-ready to new Nodes (TaintNodesByCondition). The node lifecycle controller removes the taint. */
export default Admission.plugin({
  id: 'admission-taint-nodes-by-condition',
  config: z.strictObject({}),
  create: () => ({
    matches: [{ resources: ['nodes'], operations: ['CREATE'] }],
    mutate({ object }) {
      if (object === undefined) return allow;
      const { spec = {} }: Node = object;
      const taints = spec.taints ?? [];
      return taints.some((taint) => taint.key === key && taint.effect === 'NoSchedule')
        ? object
        : { ...object, spec: { ...spec, taints: [...taints, { key, effect: 'NoSchedule' }] } };
    },
  }),
});
