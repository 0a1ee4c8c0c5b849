import type { CertificateSigningRequest } from '@oarlock/api/types/certificates-v1';
import { Admission, allow, deny } from '@oarlock/spi/admission';
import { Authz } from '@oarlock/spi/authz';
import { maySign } from '@oarlock/spi/signers';
import { z } from 'zod';

/** Lets only those approve or deny a certificate request who may `approve` its signer. */
export default Admission.plugin({
  id: 'admission-certificate-approval',
  config: z.strictObject({}),
  needs: { authz: Authz },
  create: ({ authz }) => ({
    matches: [{ resources: ['certificatesigningrequests.certificates.k8s.io/approval'], operations: ['UPDATE'] }],
    async validate({ old, identity }) {
      // what is stored counts, not what the sender says
      const signerName = (old as CertificateSigningRequest | undefined)?.spec?.signerName ?? '';
      return (await maySign(authz, identity, 'approve', signerName))
        ? allow
        : deny(`user not permitted to approve requests with signerName ${JSON.stringify(signerName)}`);
    },
  }),
});
