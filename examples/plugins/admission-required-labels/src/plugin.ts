import { Admission, allow, deny } from '@oarlock/spi/admission';
import { z } from 'zod';

/** Rejects objects without the required labels. */
export default Admission.plugin({
  id: 'admission-required-labels',
  config: z.strictObject({
    labels: z.array(z.string().min(1)).min(1),
    resources: z.array(z.string().min(1)).min(1).default(['deployments.apps']),
  }),
  create: ({ config }) => ({
    matches: [{ resources: config.resources, operations: ['CREATE', 'UPDATE'] }],
    validate({ object }) {
      const labels = object?.metadata?.labels ?? {};
      const missing = config.labels.filter((label) => !labels[label]);
      return missing.length === 0 ? allow : deny(`required labels are missing: ${missing.join(', ')}`);
    },
  }),
});
