import { fieldForbidden } from '@oarlock/api/field/field-error';
import { jsonEqual } from '@oarlock/api/json/json';
import type { CertificateSigningRequest } from '@oarlock/api/types/certificates-v1';
import type { PodCertificateRequest } from '@oarlock/api/types/certificates-v1beta1';
import { Admission, allow, deny, type AdmissionDecision, type AdmissionRequest } from '@oarlock/spi/admission';
import { Authz, type Authorizer } from '@oarlock/spi/authz';
import { isAuthorizedForSignerName } from '@oarlock/admission-rules/signers';
import { z } from 'zod';

const group = 'certificates.k8s.io';
const failed = ({ status }: CertificateSigningRequest) => (status?.conditions ?? []).filter(({ type }) => type === 'Failed');

/**
 * Requires the `sign` permission for the signer to issue a certificate to a CertificateSigningRequest or PodCertificateRequest, or to set the Failed
 * condition of a CertificateSigningRequest (CertificateSigning).
 */
export default Admission.plugin({
  id: 'admission-certificate-signing',
  config: z.strictObject({}),
  needs: { authz: Authz },
  create: ({ authz }) => ({
    matches: [
      { resources: [`certificatesigningrequests.${group}/status`, `podcertificaterequests.${group}/status`], operations: ['UPDATE'] },
    ],
    validate: (request) =>
      request.resource.resource === 'podcertificaterequests' ? checkPodCertificate(authz, request) : checkCertificate(authz, request),
  }),
});

async function checkCertificate(authz: readonly Authorizer[], { object, old, identity }: AdmissionRequest): Promise<AdmissionDecision> {
  const [next, before]: [CertificateSigningRequest, CertificateSigningRequest] = [
    (object ?? {}) as CertificateSigningRequest,
    (old ?? {}) as CertificateSigningRequest,
  ];
  if (next.status?.certificate === before.status?.certificate && jsonEqual(failed(next), failed(before))) return allow;
  const signerName = before.spec?.signerName ?? '';
  return (await isAuthorizedForSignerName(authz, { identity, verb: 'sign', signerName }))
    ? allow
    : deny(`user not permitted to sign requests with signerName ${JSON.stringify(signerName)}`);
}

async function checkPodCertificate(authz: readonly Authorizer[], { object, old, identity }: AdmissionRequest): Promise<AdmissionDecision> {
  const [next, before] = [(object ?? {}) as Partial<PodCertificateRequest>, (old ?? {}) as Partial<PodCertificateRequest>];
  if ((next.status?.certificateChain ?? '') === (before.status?.certificateChain ?? '')) return allow;
  const signerName = before.spec?.signerName ?? '';
  if (await isAuthorizedForSignerName(authz, { identity, verb: 'sign', signerName })) return allow;
  const detail = `User ${JSON.stringify(identity.name)} is not permitted to "sign" for signer ${JSON.stringify(signerName)}`;
  const { field, message } = fieldForbidden('spec.signerName', detail);
  return deny(message, { reason: 'Invalid', field });
}
