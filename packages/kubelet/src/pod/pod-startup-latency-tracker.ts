import { parseTime } from '@oarlock/api/values/time';
import type { Pod, PodStatus } from '@oarlock/api/types/core-v1';
import { isRestartableInitContainer } from '@oarlock/api/component-helpers/restartable-init-container';

/** The time from a pod's creation until all of its containers have started, in milliseconds. */
export interface PodStartupLatency {
  /** The time since `metadata.creationTimestamp`, which has a resolution of one second. */
  readonly total: number;
  /** `total` without the time of image pulls and init containers: the kubelet's pod startup SLI. */
  readonly sli: number;
  /** The time since the kubelet first saw the pod. */
  readonly sinceFirstSeen: number;
}

/** The properties of a pod that the tracker reads. */
export interface StartingPod {
  readonly pod: Pod;
  readonly status: PodStatus | undefined;
  /** True for a static pod. */
  readonly static: boolean;
  /** True if the pod ran before this kubelet started. */
  readonly adopted: boolean;
  /** When the kubelet first saw the pod: milliseconds since the epoch. */
  readonly startedAt: number;
  readonly imagePullMs: number;
  /** True once the tracker has reported the startup latency of the pod. The tracker sets it. */
  startLatencyReported: boolean;
}

/** Reports the startup latency of each pod once, except for static pods and pods that ran before the kubelet started. */
export class PodStartupLatencyTracker {
  /** Called with each startup latency; undefined disables the measurement. */
  listener: ((start: PodStartupLatency) => void) | undefined;

  /** Reports the startup latency if all containers have started. Must be called after each change of the pod's status. */
  observe(record: StartingPod, now: number): void {
    if (this.listener === undefined || record.startLatencyReported || record.adopted || record.static) return;
    const { containerStatuses = [], initContainerStatuses = [] } = record.status ?? {};
    const containers = record.pod.spec?.containers.length ?? 0;
    if (containerStatuses.length < containers || !containerStatuses.every(({ state }) => state?.running ?? state?.terminated)) return;
    record.startLatencyReported = true;
    const sidecars = new Set((record.pod.spec?.initContainers ?? []).filter(isRestartableInitContainer).map(({ name }) => name));
    const init = initContainerStatuses
      .filter(({ name }) => !sidecars.has(name))
      .reduce((sum, { state }) => sum + between(state?.terminated?.startedAt, state?.terminated?.finishedAt), 0);
    const total = Math.max(0, now - (parseTime(record.pod.metadata?.creationTimestamp ?? '') ?? record.startedAt));
    this.listener({ total, sli: Math.max(0, total - record.imagePullMs - init), sinceFirstSeen: Math.max(0, now - record.startedAt) });
  }
}

function between(from: string | undefined, to: string | undefined): number {
  const [began, ended] = [parseTime(from ?? ''), parseTime(to ?? '')];
  return began === undefined || ended === undefined ? 0 : Math.max(0, ended - began);
}
