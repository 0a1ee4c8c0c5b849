import { X509Certificate } from 'node:crypto';
import { isIP } from 'node:net';
import { connect } from 'node:tls';

const dayMs = 24 * 3_600_000;
/** Remaining days from which an expiry is marked. Servers and nodes renew their certificates earlier. */
const warningDays = 30;
const connectTimeoutMs = 3_000;

/** Returns the end of a certificate (PEM) in milliseconds since the epoch. */
export const expiryOf = (pem: string): number => Date.parse(new X509Certificate(pem).validTo);

export interface TlsServer {
  readonly host: string;
  readonly port: number;
}

/** Returns when the certificate that a TLS server presents expires, in milliseconds since the epoch; undefined if the server does not answer. */
export async function presentedExpiry(server: TlsServer): Promise<number | undefined> {
  const certificate = await presentedCertificate(server);
  return certificate && Date.parse(certificate.validTo);
}

/**
 * Returns the certificate that a TLS server presents, or undefined if the server does not answer. Reads the public certificate only: it is not
 * verified, so that an expired one is also shown, and nothing is sent.
 */
export function presentedCertificate({ host, port }: TlsServer): Promise<X509Certificate | undefined> {
  return new Promise((resolve) => {
    const servername = isIP(host) === 0 ? { servername: host } : {};
    const socket = connect({ host, port, rejectUnauthorized: false, timeout: connectTimeoutMs, ...servername });
    const finish = (certificate?: X509Certificate) => {
      resolve(certificate);
      socket.destroy();
    };
    socket.once('error', () => finish());
    socket.once('timeout', () => finish());
    socket.once('close', () => finish());
    socket.once('secureConnect', () => finish(socket.getPeerX509Certificate()));
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
