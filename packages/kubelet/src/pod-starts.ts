import { parseTime } from '@oarlock/api/time';
import type { PodRecord } from './pod-record.ts';
import { isSidecar } from './pods.ts';

/** How long a pod took until all its containers had been started, in milliseconds. */
export interface PodStart {
  /** From when the object was made, as far as that is known: its time has whole seconds. */
  readonly total: number;
  /** Without pulling images and running init containers: what a node is responsible for. */
  readonly sli: number;
  /** From when the kubelet first saw the pod. */
  readonly seen: number;
}

/** Tells of pods that have started, each once. Those that ran before the kubelet did, and static ones, are left out. */
export class PodStarts {
  /** Absent: nobody wants to know. */
  listener: ((start: PodStart) => void) | undefined;

  /** To be called when a pod's status was computed. */
  look(record: PodRecord, now: number): void {
    if (this.listener === undefined || record.startTold || record.adopted || record.static) return;
    const { containerStatuses = [], initContainerStatuses = [] } = record.status ?? {};
    const containers = record.pod.spec?.containers.length ?? 0;
    if (containerStatuses.length < containers || !containerStatuses.every(({ state }) => state?.running ?? state?.terminated)) return;
    record.startTold = true;
    const sidecars = new Set((record.pod.spec?.initContainers ?? []).filter(isSidecar).map(({ name }) => name));
    const init = initContainerStatuses
      .filter(({ name }) => !sidecars.has(name))
      .reduce((sum, { state }) => sum + between(state?.terminated?.startedAt, state?.terminated?.finishedAt), 0);
    const total = Math.max(0, now - (parseTime(record.pod.metadata?.creationTimestamp ?? '') ?? record.startedAt));
    this.listener({ total, sli: Math.max(0, total - record.pulledMs - init), seen: Math.max(0, now - record.startedAt) });
  }
}

function between(from: string | undefined, to: string | undefined): number {
  const [began, ended] = [parseTime(from ?? ''), parseTime(to ?? '')];
  return began === undefined || ended === undefined ? 0 : Math.max(0, ended - began);
}
