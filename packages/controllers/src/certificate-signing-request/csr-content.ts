/** What a PKCS #10 request asks for. */
export interface CsrContent {
  readonly commonName: string;
  readonly organizations: readonly string[];
  readonly dnsNames: readonly string[];
  readonly ipAddresses: readonly string[];
  /** Email addresses and URIs. */
  readonly others: readonly string[];
  readonly pem: string;
}

/** Reads the `request` of a CertificateSigningRequest: a PEM block in base64. @throws Error when it is none, or not signed by its own key */
export async function readCsr(request: string): Promise<CsrContent> {
  await import('reflect-metadata'); // the library's own container wants it first
  const { Pkcs10CertificateRequest, SubjectAlternativeNameExtension } = await import('@peculiar/x509');
  const pem = Buffer.from(request, 'base64').toString('utf8');
  const parsed = new Pkcs10CertificateRequest(pem);
  if (!(await parsed.verify())) throw new Error('the certificate request is not signed by its own key');
  const names = parsed.extensions.find((extension) => extension instanceof SubjectAlternativeNameExtension)?.names.toJSON() ?? [];
  const of = (type: string) => names.filter((name) => name.type === type).map(({ value }) => value);
  return {
    pem,
    commonName: parsed.subjectName.getField('CN')[0] ?? '',
    organizations: parsed.subjectName.getField('O'),
    dnsNames: of('dns'),
    ipAddresses: of('ip'),
    others: [...of('email'), ...of('url')],
  };
}
