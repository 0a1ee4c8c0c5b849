import type { ObjectKey } from '@oarlock/api/object';
import { formatTime, parseTime } from '@oarlock/api/values/time';
import type { Pod, Service } from '@oarlock/api/types/core-v1';
import { conditionOf } from '../../pods/pod-state.ts';

/**
 * Annotation on Endpoints and EndpointSlices with the time of the change that triggered the update. Service proxies measure the programming
 * latency with it.
 */
export const triggerAnnotation = 'endpoints.kubernetes.io/last-change-trigger-time';

interface KnownTriggerTimes {
  readonly service: number;
  /** Change times by pod uid. */
  readonly pods: ReadonlyMap<string, number>;
}

/** Determines the time of the earliest change of a Service and its pods since the last call (TriggerTimeTracker upstream). */
export class TriggerTimeTracker {
  readonly #known = new Map<ObjectKey, KnownTriggerTimes>();

  /** Returns the annotation value for the earliest change since the last call, or undefined if no change has a time. */
  computeLastChangeTriggerTime(key: ObjectKey, service: Service, pods: readonly Pod[]): string | undefined {
    const before = this.#known.get(key);
    const serviceCreated = parseTime(service.metadata?.creationTimestamp ?? '') ?? 0;
    const times = new Map<string, number>();
    let earliest = Number.POSITIVE_INFINITY;
    for (const pod of pods) {
      const uid = pod.metadata?.uid ?? '';
      const at = parseTime(conditionOf(pod, 'Ready')?.lastTransitionTime ?? '');
      if (at === undefined) continue;
      times.set(uid, at);
      if (at > (before?.pods.get(uid) ?? 0)) earliest = Math.min(earliest, at);
    }
    this.#known.set(key, { service: serviceCreated, pods: times });
    // the earlier state of the pods of a new Service is unknown: use its creation time
    if (before === undefined || serviceCreated > before.service) earliest = serviceCreated;
    return earliest > 0 && Number.isFinite(earliest) ? formatTime(earliest) : undefined;
  }

  forget(key: ObjectKey): void {
    this.#known.delete(key);
  }
}

/** Returns the annotations with the trigger time replaced; without the annotation if `time` is undefined. */
export function withTrigger(annotations: Readonly<Record<string, string>> | undefined, time: string | undefined): Record<string, string> {
  const { [triggerAnnotation]: _, ...others } = annotations ?? {};
  return { ...others, ...(time !== undefined && { [triggerAnnotation]: time }) };
}
