import type { X509Certificate } from 'node:crypto';
import { abstained, Authn, authenticated, rejected, type Authenticator } from '@oarlock/spi/authn';
import { z } from 'zod';

/** Undoes the escapes of RFC 4514, section 2.4: `\\,` is a comma, `\\0A` the byte 0A of a UTF-8 text. */
function unescape(value: string): string {
  const bytes: Buffer[] = [];
  for (const [, hex, escaped, plain] of value.matchAll(/\\([0-9A-Fa-f]{2})|\\(.)|([^\\]+)/gsu))
    bytes.push(hex === undefined ? Buffer.from(escaped ?? plain ?? '') : Buffer.from(hex, 'hex'));
  return Buffer.concat(bytes).toString('utf8');
}

/** `CN=a\nO=x\nOU=b + L=c` as node prints subjects: one RDN a line, most with one attribute. Marks that mean something are escaped in values. */
function attributes(subject: string): ReadonlyMap<string, readonly string[]> {
  const found = new Map<string, string[]>();
  for (const rdn of subject.split('\n')) {
    for (const part of rdn.split(/(?<=(?:^|[^\\])(?:\\\\)*) \+ /)) {
      const at = part.indexOf('=');
      if (at > 0) found.set(part.slice(0, at), [...(found.get(part.slice(0, at)) ?? []), unescape(part.slice(at + 1))]);
    }
  }
  return found;
}

/** The certificate's common name is the user, its organizations are the groups; TLS has verified the chain already. */
export class ClientCertificateAuthenticator implements Authenticator {
  // one connection sends many requests with the same certificate object
  readonly #known = new WeakMap<X509Certificate, ReturnType<typeof authenticated>>();

  authenticate({ certificate }: { readonly certificate?: X509Certificate }) {
    if (certificate === undefined) return abstained;
    const known = this.#known.get(certificate);
    if (known !== undefined) return known;
    const subject = attributes(certificate.subject);
    const name = subject.get('CN')?.at(-1); // of several the last, as crypto/x509 of Go has it
    if (name === undefined || name === '') return rejected('the client certificate has no common name');
    const result = authenticated({
      name,
      groups: [...(subject.get('O') ?? []), 'system:authenticated'],
      extra: {
        'authentication.kubernetes.io/credential-id': [`X509SHA256=${certificate.fingerprint256.replaceAll(':', '').toLowerCase()}`],
      },
    });
    this.#known.set(certificate, result);
    return result;
  }
}

export default Authn.plugin({
  id: 'authn-client-certificate',
  config: z.strictObject({}),
  create: () => new ClientCertificateAuthenticator(),
});
