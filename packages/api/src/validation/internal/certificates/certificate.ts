import { X509Certificate } from 'node:crypto';
import { pemBlocks } from '../../../values/pem.ts';

/** Returns why a PEM file in base64 is not a list of certificates; undefined if it is one, or empty. */
export function certificateFault(data: string | undefined): string | undefined {
  if (!data) return undefined;
  const blocks = pemBlocks(data);
  if (blocks.length === 0) return 'must contain at least one CERTIFICATE PEM block';
  for (const { type, text, hasHeaders } of blocks) {
    if (type !== 'CERTIFICATE') return `only CERTIFICATE PEM blocks are allowed, found ${JSON.stringify(type)}`;
    if (hasHeaders) return 'no PEM block headers are permitted';
    try {
      void new X509Certificate(text);
    } catch {
      return 'x509: malformed certificate';
    }
  }
  return undefined;
}
