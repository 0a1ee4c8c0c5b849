import { createPrivateKey, generateKeyPairSync, X509Certificate } from 'node:crypto';
import type { CertificateRequest, KeyPair } from '@oarlock/spi/cluster';
import { signLeaf, spkiOf } from './certificate-writer.ts';
import { renewAt } from './certificate-life.ts';

/** Generates a private key on curve P-256 (PEM, PKCS #8). */
export const newKey = () =>
  generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ type: 'pkcs8', format: 'pem' }) as string;

/** Issues a certificate for a new key. */
export function issuePair(ca: KeyPair, request: CertificateRequest): KeyPair {
  const key = newKey();
  return { certificate: signLeaf(ca, spkiOf(createPrivateKey(key)), request), key };
}

/**
 * Returns true if a stored key pair is complete, its certificate is valid already, and at least a fifth of the certificate's lifetime remains; false if
 * a crash truncated the pair, or if the clock was ahead when the certificate was issued.
 */
export function isUsable({ certificate, key }: KeyPair): boolean {
  try {
    const parsed = new X509Certificate(certificate);
    return parsed.checkPrivateKey(createPrivateKey(key)) && Date.now() >= Date.parse(parsed.validFrom) && Date.now() < renewAt(certificate);
  } catch {
    return false; // not PEM: the pair is issued again
  }
}
