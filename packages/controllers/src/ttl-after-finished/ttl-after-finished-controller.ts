import { objectKey } from '@oarlock/api/object';
import { jobs as jobResource } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { parseTime } from '@oarlock/api/time';
import type { Job } from '@oarlock/api/types/batch-v1';
import { Informers } from '@oarlock/spi/client';
import { Controllers, watch } from '@oarlock/spi/controller';
import { z } from 'zod';
import { conditionOf } from '../job/job-verdict.ts';
import { nameOf } from '../pod-template.ts';

/** When a finished Job may go, in milliseconds; undefined while it has not finished or is to stay. */
function expiryOf(job: Job): number | undefined {
  const seconds = job.spec?.ttlSecondsAfterFinished;
  const end = conditionOf(job, 'Complete') ?? conditionOf(job, 'Failed');
  const at = parseTime(end?.lastTransitionTime ?? '');
  return seconds === undefined || at === undefined ? undefined : at + seconds * 1000;
}

/** Deletes Jobs `ttlSecondsAfterFinished` after their end, with all that is theirs. */
export default Controllers.plugin({
  id: 'controller-ttl-after-finished',
  declares: { loop: 'ttl-after-finished' },
  config: z.strictObject({}),
  needs: { informers: Informers },
  create({ informers }, { clock }) {
    const all = informers.of(jobResource);
    return {
      name: 'ttl-after-finished',
      watches: [watch(all, (job) => (expiryOf(job) === undefined ? [] : [objectKey(job)]))],
      async reconcile(key, { client }) {
        const job = all.get(key);
        const expiry = job && expiryOf(job);
        if (job === undefined || expiry === undefined || job.metadata?.deletionTimestamp !== undefined) return undefined;
        const left = expiry - clock.now();
        if (left > 0) return { requeueAfterMs: left };
        try {
          // the time to live may have been changed meanwhile
          const fresh = await client.get(jobResource, nameOf(job));
          const again = expiryOf(fresh);
          if (fresh.metadata?.uid !== job.metadata?.uid || again === undefined || again > clock.now()) return undefined;
          await client.delete(jobResource, nameOf(job), {
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
