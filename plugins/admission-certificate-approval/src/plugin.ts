import type { CertificateSigningRequest } from '@oarlock/api/types/certificates-v1';
import { Admission, allow, deny } from '@oarlock/spi/admission';
import { Authz } from '@oarlock/spi/authz';
import { isAuthorizedForSignerName } from '@oarlock/admission-rules/signers';
import { z } from 'zod';

/** Requires the `approve` permission for the signer to approve or deny a CertificateSigningRequest (CertificateApproval). */
export default Admission.plugin({
  id: 'admission-certificate-approval',
  config: z.strictObject({}),
  needs: { authz: Authz },
  create: ({ authz }) => ({
    matches: [{ resources: ['certificatesigningrequests.certificates.k8s.io/approval'], operations: ['UPDATE'] }],
    async validate({ old, identity }) {
      // the stored signer name counts, not the submitted one
      const signerName = (old as CertificateSigningRequest | undefined)?.spec?.signerName ?? '';
      return (await isAuthorizedForSignerName(authz, { identity, verb: 'approve', signerName }))
        ? allow
        : deny(`user not permitted to approve requests with signerName ${JSON.stringify(signerName)}`);
    },
  }),
});
