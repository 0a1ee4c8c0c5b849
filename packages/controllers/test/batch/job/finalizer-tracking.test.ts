import { jobs, pods } from '@oarlock/api/resources';
import type { Job } from '@oarlock/api/types/batch-v1';
import type { Pod } from '@oarlock/api/types/core-v1';
import { ReleasedPods, trackJobStatusAndRemoveFinalizers } from '@oarlock/controllers/batch/job/finalizer-tracking';
import { trackingFinalizer } from '@oarlock/controllers/batch/job/pod-failure-policy';
import { buildSyncJobContext } from '@oarlock/controllers/batch/job/sync-job-context';
import { ConsistencyStore } from '@oarlock/controllers/expectations/consistency-store';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { describe, expect, it } from 'vitest';

const key = 'd/work';
const template = { spec: { restartPolicy: 'Never', containers: [{ name: 'c', image: 'a:1' }] } };

async function setUp() {
  const api = memoryApi({ clock: new FakeClock() });
  const client = api.client();
  const job = await client.create<Job>(jobs, {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: { namespace: 'd', name: 'work' },
    spec: { completions: 2, template },
  });
  const pod = await client.create<Pod>(pods, {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { namespace: 'd', name: 'p', finalizers: [trackingFinalizer] },
    spec: template.spec,
  });
  const succeeded: Pod = { ...pod, status: { phase: 'Succeeded' } };
  return { api, client, job, pod: succeeded, uid: pod.metadata?.uid ?? '', releasedPods: new ReleasedPods() };
}

describe('ReleasedPods', () => {
  it('excludes a pod while the cache shows its finalizer', async () => {
    const { api, client, pod, uid, releasedPods } = await setUp();
    await releasedPods.release(key, pod, client);
    expect([...releasedPods.of(key)]).toEqual([uid]);
    expect(api.object(pods, { namespace: 'd', name: 'p' })?.metadata?.finalizers ?? []).toEqual([]);
    releasedPods.observed(key, uid);
    expect([...releasedPods.of(key)]).toEqual([]);
  });

  it('does not wait for a removal that the cache shows before the response arrives', async () => {
    const { client, pod, uid, releasedPods } = await setUp();
    const released = releasedPods.release(key, pod, client);
    releasedPods.observed(key, uid);
    await released;
    expect([...releasedPods.of(key)]).toEqual([]);
  });

  it('does not wait for a removal that failed, or for a pod that does not exist', async () => {
    const { api, client, pod, releasedPods } = await setUp();
    api.failNext({ verb: 'patch', resource: pods }, new Error('unreachable'));
    await expect(releasedPods.release(key, pod, client)).rejects.toThrow('unreachable');
    expect([...releasedPods.of(key)]).toEqual([]);
    api.remove(pods, { namespace: 'd', name: 'p' });
    await releasedPods.release(key, pod, client);
    expect([...releasedPods.of(key)]).toEqual([]);
  });
});

describe('trackJobStatusAndRemoveFinalizers', () => {
  it('does not count a pod again if the cache shows its removed finalizer during the sync, and the list of pods is older', async () => {
    const { client, job, pod, uid, releasedPods } = await setUp();
    await releasedPods.release(key, pod, client);
    const syncContext = buildSyncJobContext(job, [pod], releasedPods.of(key));
    releasedPods.observed(key, uid);
    const updated = await trackJobStatusAndRemoveFinalizers({
      key,
      syncContext,
      status: { ...job.status, succeeded: 1 },
      finishCondition: undefined,
      releasedPods,
      consistencyStore: new ConsistencyStore(),
      mayFinish: true,
      client,
      nowMs: 0,
    });
    expect(updated.status).toMatchObject({ succeeded: 1 });
    expect(updated.status?.uncountedTerminatedPods ?? {}).toEqual({});
  });
});
