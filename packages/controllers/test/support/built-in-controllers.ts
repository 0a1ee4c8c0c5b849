import { deployments, pods, replicaSets } from '@oarlock/api/resources';
import type { Resource } from '@oarlock/api/resource';
import { formatTime } from '@oarlock/api/values/time';
import type { Deployment, ReplicaSet } from '@oarlock/api/types/apps-v1';
import type { Pod } from '@oarlock/api/types/core-v1';
import { builtin } from '@oarlock/controllers/builtin';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi, type MemoryApi } from '@oarlock/testing/memory-api';
import { afterEach, beforeEach } from 'vitest';
import { startControllers, type RunningController } from './run-controller.ts';

export let clock: FakeClock;
export let api: MemoryApi;
export let recordedEvents: { reason: string; message: string }[];
let running: RunningController | undefined;

/** Runs all built-in controllers on an in-memory API, as the controllers role does. */
export async function start(): Promise<void> {
  running = await startControllers(
    builtin.map((plugin) => ({ plugin })),
    { clock, api: () => api, recorder: { event: (_about, _type, reason, message) => void recordedEvents.push({ reason, message }) } },
  );
}

/** Each test of the calling file gets an empty API, whose controllers `start` runs. */
export function useBuiltInControllers(): void {
  beforeEach(() => {
    clock = new FakeClock();
    api = memoryApi({ clock });
    recordedEvents = [];
    running = undefined;
  });
  afterEach(() => running?.stop() ?? api.stop());
}

export const template = (image: string) => ({ metadata: { labels: { app: 'web' } }, spec: { containers: [{ name: 'c', image }] } });
export const deployment = (more: Partial<Deployment['spec'] & object> = {}): Deployment => ({
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { namespace: 'd', name: 'web' },
  spec: {
    replicas: 3,
    selector: { matchLabels: { app: 'web' } },
    progressDeadlineSeconds: 600,
    strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge: 1, maxUnavailable: 1 } },
    template: template('a:1'),
    ...more,
  },
});
export const live = () => api.objects(pods, 'd').filter(({ metadata }) => metadata?.deletionTimestamp === undefined);
export const sets = () => api.objects(replicaSets, 'd');
export const image = (set: ReplicaSet) => set.spec?.template?.spec?.containers[0]?.image;
export const get = () => api.object(deployments, { namespace: 'd', name: 'web' }) ?? {};
export const condition = (object: Deployment, type: string) => object.status?.conditions?.find((each) => each.type === type);

export async function makeReady(some: readonly Pod[] = live()): Promise<void> {
  for (const pod of some) {
    if (pod.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True')) continue;
    const now = formatTime(clock.now());
    await api.client().update(
      pods,
      {
        ...pod,
        status: {
          phase: 'Running',
          podIP: `10.244.0.${10 + Number(pod.metadata?.resourceVersion)}`,
          conditions: [{ type: 'Ready', status: 'True', lastTransitionTime: now }],
        },
      },
      { subresource: 'status' },
    );
  }
  await clock.settle();
}
/** Removes terminating pods at once, as a kubelet does after the grace period. */
export async function reap(): Promise<void> {
  for (const pod of api.objects(pods, 'd'))
    if (pod.metadata?.deletionTimestamp !== undefined) api.remove(pods, { namespace: 'd', name: pod.metadata.name ?? '' });
  await clock.settle();
}
export const names = (resource: Resource) => api.objects(resource, 'd').map(({ metadata }) => metadata?.name);
