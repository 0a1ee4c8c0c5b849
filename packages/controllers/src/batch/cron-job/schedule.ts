import { durationMs } from '@oarlock/api/values/duration';
import { TimeZone } from './time-zone.ts';

/** A cron schedule that computes due times. Times are in milliseconds since the epoch. */
export interface Schedule {
  /** Returns the first due time after `after`, or undefined if there is none within five years. */
  next(after: number): number | undefined;
}

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const maxSearchYears = 5;
const months = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];
const weekdays = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'];
const descriptors: Readonly<Record<string, string>> = {
  '@yearly': '0 0 1 1 *',
  '@annually': '0 0 1 1 *',
  '@monthly': '0 0 1 * *',
  '@weekly': '0 0 * * 0',
  '@daily': '0 0 * * *',
  '@midnight': '0 0 * * *',
  '@hourly': '0 * * * *',
};

interface Bounds {
  readonly min: number;
  readonly max: number;
  readonly names?: readonly string[];
}
const fields: readonly Bounds[] = [
  { min: 0, max: 59 },
  { min: 0, max: 23 },
  { min: 1, max: 31 },
  { min: 1, max: 12, names: months },
  { min: 0, max: 6, names: weekdays },
];

interface Field {
  readonly values: ReadonlySet<number>;
  /**
   * True if the field contains `*` without a step. If this is true for either day field, a day must match both day fields; otherwise, either field.
   */
  readonly hasStar: boolean;
}

export class ScheduleError extends Error {
  override readonly name = 'ScheduleError';
}

function numberOf(text: string, { min, names }: Bounds): number {
  const named = names?.indexOf(text.toLowerCase()) ?? -1;
  if (named >= 0) return named + min;
  if (!/^[0-9]{1,9}$/.test(text)) throw new ScheduleError(`failed to parse int from ${text}`);
  return Number(text);
}

/** Parses one range of a cron field: `*`, `?`, `5` or `1-5`, each with an optional `/step`. A single number with a step extends to the maximum. */
function parseRange(text: string, bounds: Bounds): { readonly values: readonly number[]; readonly hasStar: boolean } {
  const [range = '', stepText, ...more] = text.split('/');
  if (more.length > 0) throw new ScheduleError(`too many slashes: ${text}`);
  const [fromText = '', toText, ...rest] = range.split('-');
  if (rest.length > 0) throw new ScheduleError(`too many hyphens: ${text}`);
  const star = fromText === '*' || fromText === '?';
  const step = stepText === undefined ? 1 : numberOf(stepText, { min: 0, max: bounds.max });
  const from = star ? bounds.min : numberOf(fromText, bounds);
  const to = star || (toText === undefined && stepText !== undefined) ? bounds.max : toText === undefined ? from : numberOf(toText, bounds);
  if (from < bounds.min) throw new ScheduleError(`beginning of range (${from}) below minimum (${bounds.min}): ${text}`);
  if (to > bounds.max) throw new ScheduleError(`end of range (${to}) above maximum (${bounds.max}): ${text}`);
  if (from > to) throw new ScheduleError(`beginning of range (${from}) beyond end of range (${to}): ${text}`);
  if (step === 0) throw new ScheduleError(`step of range should be a positive number: ${text}`);
  const values: number[] = [];
  for (let value = from; value <= to; value += step) values.push(value);
  return { values, hasStar: star && step === 1 };
}

function parseField(text: string, bounds: Bounds): Field {
  const ranges = text
    .split(',')
    .filter((part) => part !== '')
    .map((part) => parseRange(part, bounds));
  return { values: new Set(ranges.flatMap(({ values }) => values)), hasStar: ranges.some(({ hasStar: any }) => any) };
}

/** A cron schedule in the local time of a time zone: times that a clock change skips are not due, and repeated times are due twice. */
class CronSchedule implements Schedule {
  readonly #minute: Field;
  readonly #hour: Field;
  readonly #day: Field;
  readonly #month: Field;
  readonly #weekday: Field;
  readonly #zone: TimeZone;

  constructor(text: string, zone: TimeZone) {
    const parts = text.split(/\s+/).filter((part) => part !== '');
    if (parts.length !== fields.length) throw new ScheduleError(`expected exactly 5 fields, found ${parts.length}: [${parts.join(' ')}]`);
    const [minute, hour, day, month, weekday] = parts.map((part, at) => parseField(part, fields[at] as Bounds)) as [
      Field,
      Field,
      Field,
      Field,
      Field,
    ];
    this.#minute = minute;
    this.#hour = hour;
    this.#day = day;
    this.#month = month;
    this.#weekday = weekday;
    this.#zone = zone;
  }

  next(after: number): number | undefined {
    let at = (Math.floor(after / minuteMs) + 1) * minuteMs;
    const lastYear = this.#zone.wall(at).year + maxSearchYears;
    for (;;) {
      const { year, month, day, hour, minute, weekday } = this.#zone.wall(at);
      if (year > lastYear) return undefined;
      if (!this.#month.values.has(month)) at = this.#zone.dayStart(year, month + 1, 1);
      else if (!this.#dayMatches(day, weekday)) at = this.#zone.dayStart(year, month, day + 1);
      else if (!this.#hour.values.has(hour)) at += hourMs - minute * minuteMs;
      else if (!this.#minute.values.has(minute)) at += minuteMs;
      else return at;
    }
  }

  #dayMatches(day: number, weekday: number): boolean {
    const byDay = this.#day.values.has(day);
    const byWeekday = this.#weekday.values.has(weekday);
    return this.#day.hasStar || this.#weekday.hasStar ? byDay && byWeekday : byDay || byWeekday;
  }
}

/**
 * Parses a cron schedule: five fields, a descriptor such as `@daily`, or `@every 1h30m`. A leading `TZ=` or `CRON_TZ=` sets the time zone.
 * @throws ScheduleError if the syntax is invalid; RangeError if the time zone is unknown
 */
export function parseSchedule(text: string, zone: TimeZone): Schedule {
  const prefixed = /^(?:CRON_)?TZ=(\S*)\s+(.*)$/s.exec(text.trim());
  if (prefixed !== null) return parseSchedule(prefixed[2] ?? '', new TimeZone(prefixed[1] ?? ''));
  const expression = text.trim();
  if (expression === '') throw new ScheduleError('empty spec string');
  if (expression.startsWith('@every ')) {
    const everyMs = Math.max(1000, Math.floor(durationMs(expression.slice('@every '.length)) / 1000) * 1000);
    return { next: (after) => Math.floor(after / 1000) * 1000 + everyMs };
  }
  if (expression.startsWith('@')) {
    const known = descriptors[expression];
    if (known === undefined) throw new ScheduleError(`unrecognized descriptor: ${expression}`);
    return new CronSchedule(known, zone);
  }
  return new CronSchedule(expression, zone);
}
