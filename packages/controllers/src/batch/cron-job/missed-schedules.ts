import { parseTime } from '@oarlock/api/values/time';
import type { CronJob } from '@oarlock/api/types/batch-v1';
import type { Schedule } from './schedule.ts';

const tooManyMissed = 100;
const nextScheduleDeltaMs = 100; // requeue delay after the scheduled time, so that the schedule is due (nextScheduleDelta upstream)

export interface MissedSchedules {
  readonly earliest: number;
  /** The last scheduled time that has passed since the last run; undefined if there is none. */
  readonly latest: number | undefined;
  readonly tooMany: boolean;
}

/** Thrown for a schedule without due times, such as `59 23 31 2 *`. `message` is upstream's. */
export class InvalidScheduleError extends Error {
  override readonly name = 'InvalidScheduleError';
  constructor() {
    super('time difference between two schedules is less than 1 second');
  }
}

/** The times between which runs of a schedule are counted, and whether a deadline bounds them. */
export interface ScheduleWindow {
  readonly schedule: Schedule;
  readonly nowMs: number;
}

/**
 * Returns the last scheduled time that has passed since `status.lastScheduleTime`, and whether too many scheduled times were missed. Computes
 * long series of missed times by arithmetic instead of iteration.
 * @throws InvalidScheduleError if the schedule has no due time
 */
export function missedSchedules(
  { metadata, spec, status }: CronJob,
  { schedule, nowMs }: ScheduleWindow,
  { withDeadline }: { readonly withDeadline: boolean },
): MissedSchedules {
  let earliest = parseTime(status?.lastScheduleTime ?? metadata?.creationTimestamp ?? '') ?? nowMs;
  if (withDeadline && spec.startingDeadlineSeconds !== undefined)
    earliest = Math.max(earliest, nowMs - spec.startingDeadlineSeconds * 1000);
  const first = schedule.next(earliest);
  if (first === undefined) throw new InvalidScheduleError();
  if (nowMs < first) return { earliest, latest: undefined, tooMany: false };
  const second = schedule.next(first);
  if (second === undefined || nowMs < second) return { earliest, latest: first, tooMany: false };
  const intervalMs = second - first;
  const count = Math.floor((nowMs - first) / intervalMs) + 1;
  // starts one interval before the estimate, because intervals may be uneven
  let latest: number | undefined;
  for (let at = schedule.next(first + (count - 2) * intervalMs); at !== undefined && at <= nowMs; at = schedule.next(at)) latest = at;
  return { earliest, latest, tooMany: count > tooManyMissed };
}

/** Returns the milliseconds until the next scheduled time, or undefined if there is none. */
export function msUntilNextSchedule(cronJob: CronJob, schedule: Schedule, nowMs: number): number | undefined {
  const { earliest, latest, tooMany } = missedSchedules(cronJob, { schedule, nowMs }, { withDeadline: false });
  const next = schedule.next(latest ?? (tooMany ? nowMs : earliest));
  return next === undefined ? undefined : Math.max(0, next - nowMs) + nextScheduleDeltaMs;
}
