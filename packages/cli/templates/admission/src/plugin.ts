import { Admission, allow, deny } from '@oarlock/spi/admission';
import { z } from 'zod';

/** Denies objects that lack a label. */
export default Admission.plugin({
  id: '__ID__',
  config: z.strictObject({
    label: z.string().min(1).default('owner'),
    resources: z.array(z.string().min(1)).min(1).default(['deployments.apps']),
  }),
  create: ({ config: { label, resources } }) => ({
    // static: the API server does not call the plugin for other requests
    matches: [{ resources, operations: ['CREATE', 'UPDATE'] }],
    validate: ({ object }) => (object?.metadata?.labels?.[label] ? allow : deny(`the label ${label} is missing`)),
  }),
});
