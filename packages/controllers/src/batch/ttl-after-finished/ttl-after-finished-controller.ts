import { objectKey } from '@oarlock/api/object';
import { jobs as jobResource } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { parseTime } from '@oarlock/api/values/time';
import type { Job } from '@oarlock/api/types/batch-v1';
import { Informers } from '@oarlock/spi/client';
import { Controllers, watch } from '@oarlock/spi/controller';
import { z } from 'zod';
import { conditionOf } from '../job/finish-condition.ts';
import { objectName } from '../../objects/object-identity.ts';

/** Returns when a finished Job expires, in milliseconds since the epoch. Returns undefined if the Job is not finished or has no TTL. */
function expiryOf(job: Job): number | undefined {
  const seconds = job.spec?.ttlSecondsAfterFinished;
  const end = conditionOf(job, 'Complete') ?? conditionOf(job, 'Failed');
  const at = parseTime(end?.lastTransitionTime ?? '');
  return seconds === undefined || at === undefined ? undefined : at + seconds * 1000;
}

/** Deletes a Job and its dependents `ttlSecondsAfterFinished` seconds after the Job has finished. */
export default Controllers.plugin({
  id: 'controller-ttl-after-finished',
  declares: { loop: 'ttl-after-finished' },
  config: z.strictObject({}),
  needs: { informers: Informers },
  create({ informers }, { clock }) {
    const jobInformer = informers.forResource(jobResource);
    return {
      name: 'ttl-after-finished',
      watches: [watch(jobInformer, (job) => (expiryOf(job) === undefined ? [] : [objectKey(job)]))],
      async reconcile(key, { client }) {
        const job = jobInformer.get(key);
        const expiry = job && expiryOf(job);
        if (job === undefined || expiry === undefined || job.metadata?.deletionTimestamp !== undefined) return undefined;
        const remainingMs = expiry - clock.now();
        if (remainingMs > 0) return { requeueAfterMs: remainingMs };
        try {
          // the TTL may have changed meanwhile
          const fresh = await client.get(jobResource, objectName(job));
          const currentExpiry = expiryOf(fresh);
          if (fresh.metadata?.uid !== job.metadata?.uid || currentExpiry === undefined || currentExpiry > clock.now()) return undefined;
          await client.delete(jobResource, objectName(job), {
            propagationPolicy: 'Foreground',
            preconditions: { uid: job.metadata?.uid ?? '', resourceVersion: fresh.metadata?.resourceVersion ?? '' },
          });
        } catch (error) {
          if (!isStatus(error, 'NotFound')) throw error;
        }
        return undefined;
      },
    };
  },
});
