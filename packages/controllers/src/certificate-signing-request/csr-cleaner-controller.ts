import { X509Certificate } from 'node:crypto';
import { certificateSigningRequests } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { parseTime } from '@oarlock/api/time';
import type { CertificateSigningRequest } from '@oarlock/api/types/certificates-v1';
import { Informers } from '@oarlock/spi/client';
import { Controllers, watch } from '@oarlock/spi/controller';
import { z } from 'zod';

const hour = 3_600_000;
const settledMs = hour;
const pendingMs = 24 * hour;

function endOf(certificate: string): number {
  try {
    return Date.parse(new X509Certificate(Buffer.from(certificate, 'base64')).validTo);
  } catch {
    return Infinity; // of a signer that hands out something else
  }
}

/** When a request has had its time, in milliseconds since the epoch: an hour after it was settled, a day after it was made. */
function dueAt({ metadata, status }: CertificateSigningRequest): number {
  const made = parseTime(metadata?.creationTimestamp ?? '') ?? 0;
  const certificate = status?.certificate ?? '';
  const at = (...types: string[]) =>
    (status?.conditions ?? [])
      .filter(({ type }) => types.includes(type))
      .map(({ lastUpdateTime }) => (parseTime(lastUpdateTime ?? '') ?? made) + settledMs);
  if (certificate !== '') return Math.min(endOf(certificate), ...at('Approved'));
  const settled = at('Denied', 'Failed');
  return settled.length > 0 ? Math.min(...settled) : made + pendingMs;
}

/** Takes certificate requests away that nobody needs any more. */
export default Controllers.plugin({
  id: 'controller-csr-cleaner',
  declares: { loop: 'csrcleaner' },
  config: z.strictObject({}),
  needs: { informers: Informers },
  create({ informers }, { clock }) {
    const requests = informers.of(certificateSigningRequests);
    return {
      name: 'csrcleaner',
      watches: [watch(requests, ({ metadata }) => [metadata?.name ?? ''])],
      async reconcile(name, { client }) {
        const csr = requests.get(name);
        if (csr === undefined) return;
        const wait = dueAt(csr) - clock.now();
        if (wait > 0) return { requeueAfterMs: Math.min(wait, hour) };
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
