import { errorText } from '@oarlock/primitives/error-text';
import type { CertificateSigningRequest } from '@oarlock/api/types/certificates-v1';
import { Admission, allow, deny } from '@oarlock/spi/admission';
import { z } from 'zod';

const masters = 'system:masters';

/** Returns the organizations in the subject of a PKCS #10 request. @throws Error if the request is invalid */
async function organizationsOf(request: string): Promise<readonly string[]> {
  await import('reflect-metadata'); // required before the import of @peculiar/x509
  const { Pkcs10CertificateRequest } = await import('@peculiar/x509');
  const pem = Buffer.from(request, 'base64').toString('utf8');
  return new Pkcs10CertificateRequest(pem).subjectName.getField('O');
}

/** Rejects client certificate requests with the group system:masters (CertificateSubjectRestriction). */
export default Admission.plugin({
  id: 'admission-certificate-subject-restriction',
  config: z.strictObject({}),
  create: () => ({
    matches: [{ resources: ['certificatesigningrequests.certificates.k8s.io'], operations: ['CREATE'] }],
    async validate({ object }) {
      const { spec } = (object ?? {}) as CertificateSigningRequest;
      if (spec?.signerName !== 'kubernetes.io/kube-apiserver-client') return allow;
      let organizations: readonly string[];
      try {
        organizations = await organizationsOf(spec.request ?? '');
      } catch (error) {
        return deny(`failed to parse CSR: ${errorText(error)}`);
      }
      return organizations.includes(masters) ? deny(`use of ${spec.signerName} signer with ${masters} group is not allowed`) : allow;
    },
  }),
});
