import { errorText } from '@oarlock/primitives/error-text';
import type { CertificateSigningRequest } from '@oarlock/api/types/certificates-v1';
import { allow, deny, type AdmissionRequest, type AdmissionDecision } from '@oarlock/spi/admission';

const ofKubelets: ReadonlySet<string> = new Set(['kubernetes.io/kube-apiserver-client-kubelet', 'kubernetes.io/kubelet-serving']);

/** Allows a node to request client certificates only for its own node name. */
export async function admitCertificateSigningRequest(node: string, { operation, object }: AdmissionRequest): Promise<AdmissionDecision> {
  const { spec } = (object ?? {}) as CertificateSigningRequest;
  if (operation !== 'CREATE' || !ofKubelets.has(spec?.signerName ?? '')) return allow;
  const requiredName = `system:node:${node}`;
  let commonName: string | undefined;
  try {
    commonName = await commonNameOf(spec?.request ?? '');
  } catch (error) {
    return deny(`unable to parse csr: ${errorText(error)}`);
  }
  return commonName === requiredName ? allow : deny(`can only create a node CSR with CN=${requiredName}`);
}

/** Returns the common name of a PKCS #10 request. @throws Error if the request is invalid */
async function commonNameOf(request: string): Promise<string | undefined> {
  await import('reflect-metadata'); // required before the import of @peculiar/x509
  const { Pkcs10CertificateRequest } = await import('@peculiar/x509');
  return new Pkcs10CertificateRequest(Buffer.from(request, 'base64').toString('utf8')).subjectName.getField('CN')[0];
}
