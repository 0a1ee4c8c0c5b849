import { X509Certificate } from 'node:crypto';
import { isIP } from 'node:net';
import { connect } from 'node:tls';

const dayMs = 24 * 3_600_000;
/** Remaining days from which an expiry is marked. Servers and nodes renew their certificates earlier. */
const warningDays = 30;
const connectTimeoutMs = 3_000;

/** Returns the end of a certificate (PEM) in milliseconds since the epoch. */
export const expiryOf = (pem: string): number => Date.parse(new X509Certificate(pem).validTo);

/** Returns the certificates of a PEM bundle. */
export const certificatesIn = (pem: string): readonly string[] =>
  pem.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];

/**
 * Returns when the certificate that a TLS server presents expires, in milliseconds since the epoch, or undefined if the server does not answer. Reads
 * the public certificate only: it is not verified, so that an expired one is also shown, and nothing is sent.
 */
export function presentedExpiry({ host, port }: { readonly host: string; readonly port: number }): Promise<number | undefined> {
  return new Promise((resolve) => {
    const servername = isIP(host) === 0 ? { servername: host } : {};
    const socket = connect({ host, port, rejectUnauthorized: false, timeout: connectTimeoutMs, ...servername });
    const finish = (expiry?: number) => {
      resolve(expiry);
      socket.destroy();
    };
    socket.once('error', () => finish());
    socket.once('timeout', () => finish());
    socket.once('close', () => finish());
    socket.once('secureConnect', () => finish(Date.parse(socket.getPeerCertificate().valid_to)));
  });
}

/** Returns a date with the remaining days, such as `2027-11-24 (365d)`; `<unknown>` without a date. */
export function describeExpiry(expiry: number | undefined, now: number): string {
  if (expiry === undefined || Number.isNaN(expiry)) return '<unknown>';
  const days = Math.floor((expiry - now) / dayMs);
  const date = new Date(expiry).toISOString().slice(0, 10);
  if (expiry <= now) return `${date} (EXPIRED)`;
  return `${date} (${days}d${days < warningDays ? ', EXPIRES SOON' : ''})`;
}
