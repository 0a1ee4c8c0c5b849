import type { Service } from '@oarlock/api/types/core-v1';
import { Admission, allow, deny } from '@oarlock/spi/admission';
import { z } from 'zod';

/** Rejects external IPs that are added to Services (DenyServiceExternalIPs). Existing external IPs are accepted. */
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
