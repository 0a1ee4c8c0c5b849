import { createHash, X509Certificate } from 'node:crypto';

/** Returns `sha256:<hex>` of the CA's public key, in the form of kubeadm's --discovery-token-ca-cert-hash. */
export function caHash(pem: string): string {
  return `sha256:${createHash('sha256')
    .update(new X509Certificate(pem).publicKey.export({ type: 'spki', format: 'der' }))
    .digest('hex')}`;
}

/** Returns the certificates in PEM text, in their order. */
export const certificatesOf = (bundle: string): readonly string[] =>
  bundle.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];

/** Returns true if PEM text has at least one certificate and all of its certificates can be read. */
export function areCertificates(bundle: string): boolean {
  const certificates = certificatesOf(bundle);
  return certificates.length > 0 && certificates.every(isCertificate);
}

function isCertificate(pem: string): boolean {
  try {
    return new X509Certificate(pem).raw.length > 0;
  } catch {
    return false;
  }
}

/** Returns the hashes of all certificates in PEM text, in their order. */
export const caHashes = (bundle: string): readonly string[] => certificatesOf(bundle).map(caHash);

/** Returns the ends of all certificates in PEM text in RFC 3339, by their hashes. */
export const caExpirations = (bundle: string): Readonly<Record<string, string>> =>
  Object.fromEntries(certificatesOf(bundle).map((pem) => [caHash(pem), new Date(new X509Certificate(pem).validTo).toISOString()]));
