/** The content of a PKCS #10 certificate request. */
export interface CsrContent {
  readonly commonName: string;
  readonly organizations: readonly string[];
  readonly dnsNames: readonly string[];
  readonly ipAddresses: readonly string[];
  readonly emails: readonly string[];
  readonly uris: readonly string[];
  readonly pem: string;
}

/**
 * Parses `spec.request` of a CertificateSigningRequest: a PEM block in base64.
 * @throws Error if the text is not a valid PKCS #10 request or if the request is not signed with the key that it contains
 */
export async function readCsr(request: string): Promise<CsrContent> {
  await import('reflect-metadata'); // @peculiar/x509 requires it to be loaded first
  const { Pkcs10CertificateRequest, SubjectAlternativeNameExtension } = await import('@peculiar/x509');
  const pem = Buffer.from(request, 'base64').toString('utf8');
  const parsed = new Pkcs10CertificateRequest(pem);
  if (!(await parsed.verify())) throw new Error('the certificate request is not signed by its own key');
  const names = parsed.extensions.find((extension) => extension instanceof SubjectAlternativeNameExtension)?.names.toJSON() ?? [];
  const valuesOf = (type: string) => names.filter((name) => name.type === type).map(({ value }) => value);
  return {
    pem,
    commonName: parsed.subjectName.getField('CN')[0] ?? '',
    organizations: parsed.subjectName.getField('O'),
    dnsNames: valuesOf('dns'),
    ipAddresses: valuesOf('ip'),
    emails: valuesOf('email'),
    uris: valuesOf('url'),
  };
}
