import type { Pod, Toleration } from '@oarlock/api/types/core-v1';
import { Admission, allow } from '@oarlock/spi/admission';
import { z } from 'zod';

const seconds = z.int().min(0);

/** Adds tolerations of the taints not-ready and unreachable, by default for 300 seconds, to pods that lack them (DefaultTolerationSeconds). */
export default Admission.plugin({
  id: 'admission-default-toleration-seconds',
  config: z.strictObject({ notReadySeconds: seconds.default(300), unreachableSeconds: seconds.default(300) }),
  create({ config }) {
    const tolerations = (
      [
        ['node.kubernetes.io/not-ready', config.notReadySeconds],
        ['node.kubernetes.io/unreachable', config.unreachableSeconds],
      ] as const
    ).map(([key, tolerationSeconds]): Toleration & { readonly key: string } => ({
      key,
      operator: 'Exists',
      effect: 'NoExecute',
      tolerationSeconds,
    }));
    return {
      matches: [{ resources: ['pods'], operations: ['CREATE', 'UPDATE'] }],
      mutate({ object }) {
        if (object === undefined) return allow;
        const { spec }: Pod = object;
        if (spec === undefined) return object;
        const held = spec.tolerations ?? [];
        const missing = tolerations.filter(
          ({ key }) => !held.some((each) => (!each.key || each.key === key) && (!each.effect || each.effect === 'NoExecute')),
        );
        return missing.length === 0 ? object : { ...object, spec: { ...spec, tolerations: [...held, ...missing] } };
      },
    };
  },
});
