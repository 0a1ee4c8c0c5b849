import type { KubeObject } from '@oarlock/api/object';
import { pods } from '@oarlock/api/resources';
import { formatTime } from '@oarlock/api/values/time';
import type { Pod, PodCondition } from '@oarlock/api/types/core-v1';
import type { Clock } from '@oarlock/primitives/clock';
import type { MemoryApi } from './memory-api.ts';

export const isLive = (pod: Pod): boolean =>
  pod.metadata?.deletionTimestamp === undefined && pod.status?.phase !== 'Failed' && pod.status?.phase !== 'Succeeded';
export const isPodReady = ({ status }: Pod): boolean =>
  status?.conditions?.some(({ type, status: value }) => type === 'Ready' && value === 'True') === true;

const nameOf = ({ metadata }: KubeObject) => ({ namespace: metadata?.namespace ?? '', name: metadata?.name ?? '' });

/** Writes a pod status as a kubelet does. */
export async function setPodStatus(api: MemoryApi, pod: Pod, status: Pod['status']): Promise<void> {
  const now = api.object(pods, nameOf(pod));
  if (now !== undefined) await api.client().update(pods, { ...now, status: { ...now.status, ...status } }, { subresource: 'status' });
}

/** Marks the pod as running and ready since `since`, in milliseconds since the epoch. */
export async function setPodReady(api: MemoryApi, pod: Pod, since: number): Promise<void> {
  const lastTransitionTime = formatTime(since);
  const ip = `10.244.0.${9 + (Number(/\d+$/.exec(pod.metadata?.uid ?? '')?.[0] ?? 0) % 200)}`;
  const ready: PodCondition = { type: 'Ready', status: 'True', lastTransitionTime };
  const others = (pod.status?.conditions ?? []).filter(({ type }) => type !== 'Ready');
  await setPodStatus(api, pod, {
    phase: 'Running',
    podIP: ip,
    podIPs: [{ ip }],
    startTime: lastTransitionTime,
    conditions: [...others, ready],
  });
}

/** The pod, the exit code of its containers, the time, and further conditions. */
export interface PodTermination {
  readonly pod: Pod;
  readonly exitCode: number;
  readonly at: number;
  readonly conditions?: readonly PodCondition[] | undefined;
}

/** Marks the pod as terminated with an exit code. */
export async function setPodTerminated(api: MemoryApi, { pod, exitCode, at, conditions = [] }: PodTermination): Promise<void> {
  const finishedAt = formatTime(at);
  await setPodStatus(api, pod, {
    phase: exitCode === 0 ? 'Succeeded' : 'Failed',
    conditions,
    containerStatuses: (pod.spec?.containers ?? []).map(({ name, image = '' }) => ({
      name,
      image,
      imageID: '',
      ready: false,
      restartCount: 0,
      state: { terminated: { exitCode, finishedAt, reason: exitCode === 0 ? 'Completed' : 'Error' } },
    })),
  });
}

/**
 * Returns a function that simulates the kubelet for all pods: runnable pods become ready, deleted pods are removed. The function returns true if
 * anything changed.
 */
export function simulateKubelet(clock?: Pick<Clock, 'now'>): (api: MemoryApi) => Promise<boolean> {
  return async (api) => {
    let changed = false;
    for (const pod of api.objects(pods)) {
      if (pod.metadata?.deletionTimestamp !== undefined) {
        if ((pod.metadata.finalizers ?? []).length > 0) continue;
        api.remove(pods, nameOf(pod));
        changed = true;
      } else if (isLive(pod) && !isPodReady(pod)) {
        await setPodReady(api, pod, clock?.now() ?? Date.UTC(2026, 0, 1));
        changed = true;
      }
    }
    return changed;
  };
}
