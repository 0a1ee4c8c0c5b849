import type { Condition } from '@oarlock/api/types/meta-v1';
import { formatTime } from '@oarlock/api/values/time';

/** A condition as a reconcile observes it. The time of the last transition follows from the previous conditions. */
export interface ConditionUpdate extends Pick<Condition, 'type' | 'reason' | 'message' | 'observedGeneration'> {
  readonly status: 'True' | 'False' | 'Unknown';
  /** The time of the transition, if it is known. By default the current time. */
  readonly lastTransitionTime?: string;
}

/** Returns the condition of a type (meta.FindStatusCondition upstream). */
export const findCondition = (conditions: readonly Condition[] | undefined, type: string): Condition | undefined =>
  conditions?.find((condition) => condition.type === type);

/** Returns true if the condition of the type is `True` (meta.IsStatusConditionTrue upstream). */
export const isConditionTrue = (conditions: readonly Condition[] | undefined, type: string): boolean =>
  findCondition(conditions, type)?.status === 'True';

/**
 * Returns the condition to store: `lastTransitionTime` changes only if the status differs from that of the previous condition.
 * @param now milliseconds since the Unix epoch
 */
export function nextCondition(previous: Condition | undefined, { lastTransitionTime, ...update }: ConditionUpdate, now: number): Condition {
  const isTransition = previous === undefined || previous.status !== update.status;
  return { ...update, lastTransitionTime: isTransition ? (lastTransitionTime ?? formatTime(now)) : previous.lastTransitionTime };
}

/** Returns the conditions with one of them added or updated (meta.SetStatusCondition upstream). Returns the argument if nothing changes. */
export function setCondition(conditions: readonly Condition[] | undefined, update: ConditionUpdate, now: number): readonly Condition[] {
  const all = conditions ?? [];
  const index = all.findIndex(({ type }) => type === update.type);
  const previous = all[index];
  const next = nextCondition(previous, { observedGeneration: previous?.observedGeneration, ...update } as ConditionUpdate, now);
  if (previous === undefined) return [...all, next];
  const isSame =
    previous.status === next.status &&
    previous.reason === next.reason &&
    previous.message === next.message &&
    previous.observedGeneration === next.observedGeneration;
  return isSame ? all : all.with(index, next);
}

/** Returns the conditions without those of a type (meta.RemoveStatusCondition upstream). */
export const removeCondition = (conditions: readonly Condition[], type: string): readonly Condition[] =>
  conditions.filter((condition) => condition.type !== type);
