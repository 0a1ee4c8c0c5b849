import type { X509Certificate } from 'node:crypto';
import { abstained, Authn, authenticated, nodeUserPrefix, rejected, type Authenticator, type AuthnResult } from '@oarlock/spi/authn';
import { Informers } from '@oarlock/spi/client';
import { z } from 'zod';
import { NodeRevocations } from './node-revocations.ts';

/** Decodes the escapes of RFC 4514, section 2.4: `\\,` is a comma, `\\0A` is the byte 0A of a UTF-8 text. */
function unescape(value: string): string {
  const bytes: Buffer[] = [];
  for (const [, hex, escaped, plain] of value.matchAll(/\\([0-9A-Fa-f]{2})|\\(.)|([^\\]+)/gsu))
    bytes.push(hex === undefined ? Buffer.from(escaped ?? plain ?? '') : Buffer.from(hex, 'hex'));
  return Buffer.concat(bytes).toString('utf8');
}

/**
 * Parses a certificate subject as Node.js prints it, `CN=a\nO=x\nOU=b + L=c`: one RDN per line, usually with one attribute. Special characters are
 * escaped.
 */
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

interface KnownCertificate {
  readonly result: AuthnResult;
  /** Name of the node whose certificate it is; absent for other users. */
  readonly node?: string;
  /** Start of the validity, in milliseconds since the epoch. */
  readonly validFrom: number;
}

/** Authenticates client certificates: the common name is the user name, the organizations are the groups. TLS has already verified the chain. */
export class ClientCertificateAuthenticator implements Authenticator {
  // by certificate object: all requests of a connection share one
  readonly #known = new WeakMap<X509Certificate, KnownCertificate>();
  readonly #revocations: Pick<NodeRevocations, 'unknown' | 'includes'>;

  constructor(revocations: Pick<NodeRevocations, 'unknown' | 'includes'>) {
    this.#revocations = revocations;
  }

  authenticate({ certificate }: { readonly certificate?: X509Certificate }): AuthnResult | Promise<AuthnResult> {
    if (certificate === undefined) return abstained;
    const known = this.#known.get(certificate) ?? this.#parse(certificate);
    if (known.node === undefined) return known.result;
    const { unknown } = this.#revocations;
    return unknown === undefined ? this.#unlessRevoked(known) : unknown.then(() => this.#unlessRevoked(known));
  }

  #unlessRevoked({ node = '', validFrom, result }: KnownCertificate): AuthnResult {
    return this.#revocations.includes(node, validFrom) ? rejected(`the node ${node} was removed from the cluster`) : result;
  }

  #parse(certificate: X509Certificate): KnownCertificate {
    const subject = attributes(certificate.subject);
    const name = subject.get('CN')?.at(-1); // the last of several, as in Go's crypto/x509
    if (name === undefined || name === '') return { result: rejected('the client certificate has no common name'), validFrom: 0 };
    const result = authenticated({
      name,
      groups: [...(subject.get('O') ?? []), 'system:authenticated'],
      extra: {
        'authentication.kubernetes.io/credential-id': [`X509SHA256=${certificate.fingerprint256.replaceAll(':', '').toLowerCase()}`],
      },
    });
    const node = name.startsWith(nodeUserPrefix) ? name.slice(nodeUserPrefix.length) : undefined;
    const known = { result, validFrom: Date.parse(certificate.validFrom), ...(node !== undefined && { node }) };
    this.#known.set(certificate, known);
    return known;
  }
}

export default Authn.plugin({
  id: 'authn-client-certificate',
  config: z.strictObject({}),
  needs: { informers: Informers },
  create: ({ informers }) => new ClientCertificateAuthenticator(new NodeRevocations(informers)),
});
