import type { SpanContext } from '@oarlock/kernel/tracing';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { EventRecorder } from '@oarlock/spi/client';
import type { SchedulerCache } from '../cache/scheduler-cache.ts';
import { priorityOf } from '../pod-info/pod-info.ts';
import type { Nominator } from '../queue/nominator.ts';
import type { QueuedPodInfo } from '../queue/queued-pod-info.ts';
import type { SchedulingQueue } from '../queue/scheduling-queue.ts';
import type { PodStatusWriter } from './pod-status-writer.ts';
import type { FailedAttempt, ScheduledPod, SchedulingFailure } from './scheduling-attempt.ts';

interface SchedulingFailureHandlerOptions {
  readonly cache: SchedulerCache;
  readonly queue: SchedulingQueue;
  readonly nominator: Nominator;
  readonly podStatusWriter: PodStatusWriter;
  recorderOf(schedulerName: string): EventRecorder | undefined;
  /** Returns the current version of a pod, or undefined if it is deleted. */
  getPod(key: string): Pod | undefined;
}

/** Returns pods to the queue after failed attempts and reports the failures on the pods. */
export class SchedulingFailureHandler {
  readonly #options: SchedulingFailureHandlerOptions;

  constructor(options: SchedulingFailureHandlerOptions) {
    this.#options = options;
  }

  /**
   * Returns a pod to the queue after a failed scheduling cycle. `nominationWritten` is true if the binding cycle has written
   * `status.nominatedNodeName`, which the cached version of the pod may not show yet.
   */
  handleSchedulingFailure({ podInfo, profile, spanContext, failure }: FailedAttempt, nominationWritten = false): void {
    const { queue, recorderOf, podStatusWriter } = this.#options;
    const { unschedulablePlugins, reason, message, nominatedNodeName } = failure;
    if (nominatedNodeName !== undefined) this.#addNominatedPod(podInfo, nominatedNodeName, spanContext);
    const { pod } = podInfo;
    const isQueued = queue.has(podInfo.key);
    queue.addUnschedulable(podInfo, unschedulablePlugins);
    if (!isQueued) return; // the pod was deleted during the attempt
    recorderOf(profile.schedulerName)?.event(pod, 'Warning', 'FailedScheduling', message, undefined, { name: 'Scheduling' });
    podStatusWriter.writeUnschedulable(pod, { reason, message, nominatedNodeName, nominationWritten }, spanContext);
  }

  /**
   * Returns a pod to the queue after a failed binding cycle. `failure` is undefined if the scheduler stops and aborted the cycle.
   *
   * A rejected pod waits for a cluster event. The resources that it leaves help other pods only. Upstream retries pods that are rejected after
   * permit at once while no other pod is queued; such a retry would repeat the rejection without end.
   */
  handleBindingCycleError(
    { podInfo, profile, spanContext }: ScheduledPod,
    failure: SchedulingFailure | undefined,
    nominationWritten: boolean,
  ): void {
    const { cache, queue, getPod } = this.#options;
    cache.forgetPod(podInfo.key);
    if (failure === undefined) return;
    queue.updateInFlight(podInfo, getPod(podInfo.key));
    this.handleSchedulingFailure({ podInfo, profile, spanContext, failure }, nominationWritten);
    // the resources that the assumed pod held are free again
    const event = { kind: 'AssignedPod', action: 'deleted', oldObject: podInfo.pod, newObject: undefined } as const;
    queue.moveAllToActiveOrBackoffQueue(event, spanContext, (other) => other !== podInfo);
  }

  /** Nominates the pod to a node. Pods of lower priority that are nominated to the node lose their nomination and are retried. */
  #addNominatedPod(podInfo: QueuedPodInfo, node: string, spanContext: SpanContext | undefined): void {
    const { queue, nominator, podStatusWriter } = this.#options;
    if (node === '') {
      nominator.deleteNominatedPod(podInfo.key);
      return;
    }
    if (!queue.has(podInfo.key)) return; // the pod was deleted during the attempt
    for (const other of nominator.nominatedPodsForNode(node)) {
      if (priorityOf(other) >= priorityOf(podInfo)) continue;
      nominator.deleteNominatedPod(other.key);
      podStatusWriter.clearNomination(other.pod, spanContext);
      queue.activate(other.key);
    }
    nominator.addNominatedPod(podInfo, node);
  }
}
