import type { ObjectKey } from '@oarlock/api/object';
import { formatTime, parseTime } from '@oarlock/api/time';
import type { Pod, Service } from '@oarlock/api/types/core-v1';
import { conditionOf } from '../pod-state.ts';

/** On endpoints: when that happened which they were last changed for. Proxies measure by it how long it took until they knew. */
export const triggerAnnotation = 'endpoints.kubernetes.io/last-change-trigger-time';

interface Known {
  readonly service: number;
  /** By uid. */
  readonly pods: ReadonlyMap<string, number>;
}

/** Tells what a Service's endpoints are changed for: the earliest of what is new about it and its pods since it was last looked at. */
export class TriggerTimes {
  readonly #known = new Map<ObjectKey, Known>();

  /** The text of the annotation; undefined: nothing that has a time is new. */
  next(key: ObjectKey, service: Service, pods: readonly Pod[]): string | undefined {
    const before = this.#known.get(key);
    const made = parseTime(service.metadata?.creationTimestamp ?? '') ?? 0;
    const times = new Map<string, number>();
    let earliest = Number.POSITIVE_INFINITY;
    for (const pod of pods) {
      const uid = pod.metadata?.uid ?? '';
      const at = parseTime(conditionOf(pod, 'Ready')?.lastTransitionTime ?? '');
      if (at === undefined) continue;
      times.set(uid, at);
      if (at > (before?.pods.get(uid) ?? 0)) earliest = Math.min(earliest, at);
    }
    this.#known.set(key, { service: made, pods: times });
    // of a Service that is new here nobody knows what its pods were before
    if (before === undefined || made > before.service) earliest = made;
    return earliest > 0 && Number.isFinite(earliest) ? formatTime(earliest) : undefined;
  }

  forget(key: ObjectKey): void {
    this.#known.delete(key);
  }
}

/** Annotations with the time instead of the one before. */
export function withTrigger(annotations: Readonly<Record<string, string>> | undefined, time: string | undefined): Record<string, string> {
  const { [triggerAnnotation]: _, ...others } = annotations ?? {};
  return { ...others, ...(time !== undefined && { [triggerAnnotation]: time }) };
}
