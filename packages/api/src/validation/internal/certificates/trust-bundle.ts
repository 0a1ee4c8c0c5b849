import { X509Certificate } from 'node:crypto';
import { invalid, tooLong } from '../../../field/field-error.ts';
import { pemBlocks, type PemBlock } from '../../../values/pem.ts';
import type { Errors } from '../checks.ts';

const maxTrustBundleSize = 1024 * 1024;

export function parseCertificate(der: Buffer): X509Certificate | undefined {
  try {
    return new X509Certificate(der);
  } catch {
    return undefined;
  }
}
/** Returns the blocks of a PEM file that is given as text. */
export const textBlocks = (text: string): readonly PemBlock[] => pemBlocks(Buffer.from(text).toString('base64'));

/** Validates the trust anchors of a ClusterTrustBundle: distinct certificates of authorities (validateTrustBundle upstream). */
export function validateTrustBundle(errors: Errors, path: string, bundle: string): void {
  if (Buffer.byteLength(bundle) > maxTrustBundleSize) {
    errors.push(tooLong(path, maxTrustBundleSize));
    return;
  }
  const faults: string[] = [];
  const indexes = new Map<string, number[]>();
  for (const [i, block] of textBlocks(bundle).entries()) {
    const fault = anchorFault(block);
    if (fault !== undefined) faults.push(`entry ${i} ${fault}`);
    else {
      const key = block.bytes.toString('base64');
      indexes.set(key, [...(indexes.get(key) ?? []), i]);
    }
  }
  if (faults.length === 0) {
    if (indexes.size === 0) faults.push('at least one trust anchor must be provided');
    for (const same of indexes.values()) if (same.length > 1) faults.push(`duplicate trust anchor (indices [${same.join(' ')}])`);
  }
  for (const fault of faults) errors.push(invalid(path, '<value omitted>', fault));
}

function anchorFault({ type, hasHeaders, bytes }: PemBlock): string | undefined {
  if (type !== 'CERTIFICATE') return `has bad block type: ${type}`;
  if (hasHeaders) return 'has PEM block headers';
  const certificate = parseCertificate(bytes);
  if (certificate === undefined) return 'does not parse as X.509';
  return certificate.ca ? undefined : 'does not have the CA bit set';
}
