import { parseTime } from '@oarlock/api/time';
import type { CronJob } from '@oarlock/api/types/batch-v1';
import type { Schedule } from './schedule.ts';

const many = 100;
const laterMs = 100; // so that the time has come when the key does

export interface Missed {
  readonly earliest: number;
  /** The last time that has come; undefined: none has since the last run. */
  readonly latest: number | undefined;
  readonly tooMany: boolean;
}

/** The last time at which a job should have been started, counted from the last start. Many missed ones are jumped over, not walked through. */
export function missedTimes(
  { metadata, spec, status }: CronJob,
  schedule: Schedule,
  nowMs: number,
  { withDeadline }: { readonly withDeadline: boolean },
): Missed {
  let earliest = parseTime(status?.lastScheduleTime ?? metadata?.creationTimestamp ?? '') ?? nowMs;
  if (withDeadline && spec.startingDeadlineSeconds !== undefined)
    earliest = Math.max(earliest, nowMs - spec.startingDeadlineSeconds * 1000);
  const first = schedule.next(earliest);
  if (first === undefined || nowMs < first) return { earliest, latest: undefined, tooMany: false };
  const second = schedule.next(first);
  if (second === undefined || nowMs < second) return { earliest, latest: first, tooMany: false };
  const between = second - first;
  const count = Math.floor((nowMs - first) / between) + 1;
  // one step back from where an even schedule would be, for schedules that are not even
  let latest: number | undefined;
  for (let at = schedule.next(first + (count - 2) * between); at !== undefined && at <= nowMs; at = schedule.next(at)) latest = at;
  return { earliest, latest, tooMany: count > many };
}

/** Milliseconds until the next time; undefined when there is none. */
export function untilNext(cronJob: CronJob, schedule: Schedule, nowMs: number): number | undefined {
  const { earliest, latest, tooMany } = missedTimes(cronJob, schedule, nowMs, { withDeadline: false });
  const next = schedule.next(latest ?? (tooMany ? nowMs : earliest));
  return next === undefined ? undefined : Math.max(0, next - nowMs) + laterMs;
}
