import { jsonEqual } from '@oarlock/api/json/json';
import type { CertificateSigningRequest } from '@oarlock/api/types/certificates-v1';
import { Admission, allow, deny } from '@oarlock/spi/admission';
import { Authz } from '@oarlock/spi/authz';
import { isAuthorizedForSignerName } from '@oarlock/admission-rules/signers';
import { z } from 'zod';

const failed = ({ status }: CertificateSigningRequest) => (status?.conditions ?? []).filter(({ type }) => type === 'Failed');

/** Requires the `sign` permission for the signer to issue a certificate or set the Failed condition (CertificateSigning). */
export default Admission.plugin({
  id: 'admission-certificate-signing',
  config: z.strictObject({}),
  needs: { authz: Authz },
  create: ({ authz }) => ({
    matches: [{ resources: ['certificatesigningrequests.certificates.k8s.io/status'], operations: ['UPDATE'] }],
    async validate({ object, old, identity }) {
      const [next, before]: [CertificateSigningRequest, CertificateSigningRequest] = [
        (object ?? {}) as CertificateSigningRequest,
        (old ?? {}) as CertificateSigningRequest,
      ];
      if (next.status?.certificate === before.status?.certificate && jsonEqual(failed(next), failed(before))) return allow;
      const signerName = before.spec?.signerName ?? '';
      return (await isAuthorizedForSignerName(authz, { identity, verb: 'sign', signerName }))
        ? allow
        : deny(`user not permitted to sign requests with signerName ${JSON.stringify(signerName)}`);
    },
  }),
});
