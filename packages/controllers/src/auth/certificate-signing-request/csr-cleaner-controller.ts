import { X509Certificate } from 'node:crypto';
import { certificateSigningRequests } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { parseTime } from '@oarlock/api/values/time';
import type { CertificateSigningRequest } from '@oarlock/api/types/certificates-v1';
import { Informers } from '@oarlock/spi/client';
import { Controllers, watch } from '@oarlock/spi/controller';
import { z } from 'zod';

const hour = 3_600_000;
const approvedExpirationMs = hour;
const pendingExpirationMs = 24 * hour;

function certificateExpiry(certificate: string): number {
  try {
    return Date.parse(new X509Certificate(Buffer.from(certificate, 'base64')).validTo);
  } catch {
    return Infinity; // the signer issued something other than an X.509 certificate
  }
}

/** Returns when a request is deleted, in milliseconds since the epoch: one hour after approval, denial or failure, or one day after creation. */
function deletionTime({ metadata, status }: CertificateSigningRequest): number {
  const createdMs = parseTime(metadata?.creationTimestamp ?? '') ?? 0;
  const certificate = status?.certificate ?? '';
  const deletionTimesAfter = (...types: string[]) =>
    (status?.conditions ?? [])
      .filter(({ type }) => types.includes(type))
      .map(({ lastUpdateTime }) => (parseTime(lastUpdateTime ?? '') ?? createdMs) + approvedExpirationMs);
  if (certificate !== '') return Math.min(certificateExpiry(certificate), ...deletionTimesAfter('Approved'));
  const afterRejection = deletionTimesAfter('Denied', 'Failed');
  return afterRejection.length > 0 ? Math.min(...afterRejection) : createdMs + pendingExpirationMs;
}

/** Deletes CertificateSigningRequests that are expired, completed or stale. */
export default Controllers.plugin({
  id: 'controller-csr-cleaner',
  declares: { loop: 'csrcleaner' },
  config: z.strictObject({}),
  needs: { informers: Informers },
  create({ informers }, { clock }) {
    const requests = informers.forResource(certificateSigningRequests);
    return {
      name: 'csrcleaner',
      watches: [watch(requests, ({ metadata }) => [metadata?.name ?? ''])],
      async reconcile(name, { client }) {
        const csr = requests.get(name);
        if (csr === undefined) return;
        const remainingMs = deletionTime(csr) - clock.now();
        if (remainingMs > 0) return { requeueAfterMs: Math.min(remainingMs, hour) };
        try {
          await client.delete(
            certificateSigningRequests,
            { name },
            { preconditions: { ...(csr.metadata?.uid !== undefined && { uid: csr.metadata.uid }) } },
          );
        } catch (error) {
          if (!isStatus(error, 'NotFound', 'Conflict')) throw error;
        }
      },
    };
  },
});
