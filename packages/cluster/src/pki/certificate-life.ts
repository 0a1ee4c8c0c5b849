import { X509Certificate } from 'node:crypto';

/** Returns when to renew a certificate, in milliseconds since the epoch: after the given part of its lifetime, four fifths by default. */
export function renewAt(certificate: string, part = 0.8): number {
  const { validFrom, validTo } = new X509Certificate(certificate);
  const [from, to] = [Date.parse(validFrom), Date.parse(validTo)];
  return from + (to - from) * part;
}
