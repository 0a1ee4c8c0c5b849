import { createPrivateKey, X509Certificate, type KeyObject } from 'node:crypto';
import type { Secret } from '../../../generated/types/core-v1.ts';
import { pemBlocks } from '../../../values/pem.ts';

/** Returns the certificate of the first CERTIFICATE block, or the error of Go's tls.X509KeyPair. */
function findCertificate(data: string | undefined): X509Certificate | string {
  const blocks = pemBlocks(data);
  const block = blocks.find(({ type }) => type === 'CERTIFICATE');
  const [first] = blocks;
  if (block === undefined) {
    if (first === undefined) return 'tls: failed to find any PEM data in certificate input';
    if (blocks.length === 1 && first.type.endsWith('PRIVATE KEY'))
      return 'tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have been switched';
    return `tls: failed to find "CERTIFICATE" PEM block in certificate input after skipping PEM blocks of the following types: [${blocks.map(({ type }) => type).join(' ')}]`;
  }
  try {
    return new X509Certificate(block.text);
  } catch {
    return 'x509: malformed certificate';
  }
}

/** Returns the key of the first PRIVATE KEY block, or the error of Go's tls.X509KeyPair. */
function findPrivateKey(data: string | undefined): KeyObject | string {
  const blocks = pemBlocks(data);
  const block = blocks.find(({ type }) => type === 'PRIVATE KEY' || type.endsWith(' PRIVATE KEY'));
  const [first] = blocks;
  if (block === undefined) {
    if (first === undefined) return 'tls: failed to find any PEM data in key input';
    if (blocks.length === 1 && first.type === 'CERTIFICATE')
      return 'tls: found a certificate rather than a key in the PEM for the private key';
    return `tls: failed to find PEM block with type ending in "PRIVATE KEY" in key input after skipping PEM blocks of the following types: [${blocks.map(({ type }) => type).join(' ')}]`;
  }
  try {
    return createPrivateKey(block.text);
  } catch {
    return 'tls: failed to parse private key';
  }
}

/** Returns the warning about a TLS Secret whose key does not belong to its certificate. */
export function secretWarnings({ type, data = {} }: Secret): readonly string[] {
  if (type !== 'kubernetes.io/tls') return [];
  const certificate = findCertificate(data['tls.crt']);
  if (typeof certificate === 'string') return [certificate];
  const key = findPrivateKey(data['tls.key']);
  if (typeof key === 'string') return [key];
  if (certificate.publicKey.asymmetricKeyType !== key.asymmetricKeyType) return ['tls: private key type does not match public key type'];
  return certificate.checkPrivateKey(key) ? [] : ['tls: private key does not match public key'];
}
