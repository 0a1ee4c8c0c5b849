import type { CertificateSigningRequest } from '@oarlock/api/types/certificates-v1';
import { Admission, allow, deny } from '@oarlock/spi/admission';
import type { Identity } from '@oarlock/spi/authn';
import { Authz, decisionOf, type Authorizer } from '@oarlock/spi/authz';
import { z } from 'zod';

/** Whether somebody may use a signer: by its name, or by its domain's `domain/*`. */
async function permitted(authz: readonly Authorizer[], identity: Identity, verb: string, signerName: string): Promise<boolean> {
  const domain = signerName.split('/')[0] ?? '';
  for (const name of [signerName, `${domain}/*`]) {
    const { decision } = await decisionOf(authz, {
      kind: 'resource',
      identity,
      verb,
      group: 'certificates.k8s.io',
      version: '*',
      resource: 'signers',
      subresource: '',
      namespace: '',
      name,
    });
    if (decision === 'allow') return true;
  }
  return false;
}

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
      return (await permitted(authz, identity, 'approve', signerName))
        ? allow
        : deny(`user not permitted to approve requests with signerName ${JSON.stringify(signerName)}`);
    },
  }),
});
