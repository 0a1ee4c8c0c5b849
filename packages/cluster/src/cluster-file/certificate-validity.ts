import { durationMs } from '@oarlock/api/values/duration';

const [minuteMs, dayMs] = [60_000, 86_400_000];
/** The shortest lifetime is that of certificates of CertificateSigningRequests; the longest is that of a CA. */
const limits = { shortestMs: 10 * minuteMs, longestMs: 3650 * dayMs };

export function isValidityPeriod(text: string): boolean {
  try {
    const ms = durationMs(text);
    return ms >= limits.shortestMs && ms <= limits.longestMs;
  } catch {
    return false; // not a Go duration
  }
}

/** Returns the lifetime of certificates in days; undefined for the default. */
export const certificateDays = ({ certificateValidityPeriod: period }: { readonly certificateValidityPeriod?: string | undefined }) =>
  period === undefined ? undefined : durationMs(period) / dayMs;
