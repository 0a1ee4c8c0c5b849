import type { Job } from '@oarlock/api/types/batch-v1';
import type { Pod } from '@oarlock/api/types/core-v1';
import { describe, expect, it } from 'vitest';
import { finishConditionOf } from '../../../src/batch/job/finish-condition.ts';
import { buildSyncJobContext } from '../../../src/batch/job/sync-job-context.ts';

const job = (backoffLimit: number, restartPolicy = 'OnFailure'): Job => ({
  metadata: { namespace: 'default', name: 'job', uid: 'job' },
  spec: { backoffLimit, template: { spec: { restartPolicy, containers: [] } } },
});
let pods = 0;
const pod = (phase: string, restarts: readonly number[], deletionTimestamp?: string): Pod => ({
  metadata: {
    namespace: 'default',
    name: `p${String(++pods)}`,
    uid: `p${String(pods)}`,
    ...(deletionTimestamp !== undefined && { deletionTimestamp }),
  },
  status: {
    phase,
    // the first is that of an init container
    initContainerStatuses: restarts.slice(0, 1).map((restartCount) => ({ name: 'i', image: '', imageID: '', ready: true, restartCount })),
    containerStatuses: restarts.slice(1).map((restartCount) => ({ name: 'c', image: '', imageID: '', ready: true, restartCount })),
  },
});
const reasonOf = (of: Job, ...own: readonly Pod[]) => finishConditionOf(buildSyncJobContext(of, own, new Set()), 0)?.reason;
const deleted = '2026-01-01T00:00:00Z';

describe('backoffLimit with restart policy OnFailure', () => {
  it.each([
    ['restarts of init containers and containers of all pods', job(5), [pod('Running', [1, 2]), pod('Pending', [2])], true],
    ['fewer restarts', job(5), [pod('Running', [1, 2]), pod('Pending', [1])], false],
    ['restarts of a terminating pod', job(5), [pod('Running', [1, 2], deleted), pod('Running', [2, 0])], true],
    ['restarts of a terminating pod that has not started', job(2), [pod('Pending', [2], deleted)], true],
    ['restarts of finished pods', job(5), [pod('Succeeded', [5, 5]), pod('Failed', [5, 5])], false],
    ['a restart with limit 0', job(0), [pod('Running', [0, 1])], true],
    ['no restart with limit 0', job(0), [pod('Running', [0, 0])], false],
    ['restarts with restart policy Never', job(1, 'Never'), [pod('Running', [1, 1])], false],
  ] as const)('%s', (_, of, own, isReached) => {
    expect(reasonOf(of, ...own)).toBe(isReached ? 'BackoffLimitExceeded' : undefined);
  });
});
