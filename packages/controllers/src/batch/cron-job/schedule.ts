import { parseCronExpression, type CronFields } from '@oarlock/api/values/cron-expression';
import { TimeZone } from './time-zone.ts';

/** A cron schedule that computes due times. Times are in milliseconds since the epoch. */
export interface Schedule {
  /** Returns the first due time after `after`, or undefined if there is none within five years. */
  next(after: number): number | undefined;
}

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const maxSearchYears = 5;

/** A cron schedule in the local time of a time zone: times that a clock change skips are not due, and repeated times are due twice. */
class CronSchedule implements Schedule {
  readonly #fields: CronFields;
  readonly #zone: TimeZone;

  constructor(fields: CronFields, zone: TimeZone) {
    this.#fields = fields;
    this.#zone = zone;
  }

  next(after: number): number | undefined {
    const fields = this.#fields;
    let at = (Math.floor(after / minuteMs) + 1) * minuteMs;
    const lastYear = this.#zone.wall(at).year + maxSearchYears;
    for (;;) {
      const { year, month, day, hour, minute, weekday } = this.#zone.wall(at);
      if (year > lastYear) return undefined;
      if (!fields.month.values.has(month)) at = this.#zone.dayStart(year, month + 1, 1);
      else if (!this.#dayMatches(day, weekday)) at = this.#zone.dayStart(year, month, day + 1);
      else if (!fields.hour.values.has(hour)) at += hourMs - minute * minuteMs;
      else if (!fields.minute.values.has(minute)) at += minuteMs;
      else return at;
    }
  }

  /** If either day field has a star, a day must match both day fields; otherwise, either field. */
  #dayMatches(day: number, weekday: number): boolean {
    const fields = this.#fields;
    const byDay = fields.day.values.has(day);
    const byWeekday = fields.weekday.values.has(weekday);
    return fields.day.hasStar || fields.weekday.hasStar ? byDay && byWeekday : byDay || byWeekday;
  }
}

/**
 * Parses a cron schedule: five fields, a descriptor such as `@daily`, or `@every 1h30m`. A leading `TZ=` or `CRON_TZ=` sets the time zone.
 * @throws ParseError code `cron` if the syntax is invalid; RangeError if the time zone is unknown
 */
export function parseSchedule(text: string, zone: TimeZone): Schedule {
  const prefixed = /^(?:CRON_)?TZ=(\S*)\s+(.*)$/s.exec(text.trim());
  if (prefixed !== null) return parseSchedule(prefixed[2] ?? '', new TimeZone(prefixed[1] ?? ''));
  const expression = parseCronExpression(text.trim());
  if (!('everyMs' in expression)) return new CronSchedule(expression, zone);
  return { next: (after) => Math.floor(after / 1000) * 1000 + expression.everyMs };
}
