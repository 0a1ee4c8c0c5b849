import type { Service } from '@oarlock/api/types/core-v1';
import { Admission, allow, deny } from '@oarlock/spi/admission';
import { z } from 'zod';

/** Keeps Services from claiming addresses that are not the cluster's. What is there may stay. */
export default Admission.plugin({
  id: 'admission-deny-service-external-ips',
  config: z.strictObject({}),
  create: () => ({
    matches: [{ resources: ['services'], operations: ['CREATE', 'UPDATE'] }],
    validate({ object, old }) {
      const held = new Set(((old ?? {}) as Service).spec?.externalIPs ?? []);
      return (((object ?? {}) as Service).spec?.externalIPs ?? []).every((address) => held.has(address))
        ? allow
        : deny('Use of external IPs is denied by admission control');
    },
  }),
});
