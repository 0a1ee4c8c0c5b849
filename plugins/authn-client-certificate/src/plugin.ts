import type { X509Certificate } from 'node:crypto';
import { abstained, Authn, authenticated, rejected, type Authenticator } from '@oarlock/spi/authn';
import { z } from 'zod';

/** `CN=a\nO=x\nO=y` as node prints subjects: one attribute a line, values with `\` escapes (RFC 4514). */
function attributes(subject: string): ReadonlyMap<string, readonly string[]> {
  const found = new Map<string, string[]>();
  for (const line of subject.split('\n')) {
    const at = line.indexOf('=');
    if (at > 0) found.set(line.slice(0, at), [...(found.get(line.slice(0, at)) ?? []), line.slice(at + 1).replaceAll(/\\(.)/g, '$1')]);
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
    const name = subject.get('CN')?.[0];
    if (name === undefined || name === '') return rejected('the client certificate has no common name');
    const result = authenticated({
      name, groups: [...(subject.get('O') ?? []), 'system:authenticated'],
      extra: { 'authentication.kubernetes.io/credential-id': [`X509SHA256=${certificate.fingerprint256.replaceAll(':', '').toLowerCase()}`] },
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
