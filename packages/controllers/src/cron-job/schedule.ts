import { durationMs } from '@oarlock/api/duration';
import { TimeZone } from './time-zone.ts';

/** Says when a schedule is due. Instants are milliseconds since the epoch. */
export interface Schedule {
  /** The first time after `after`; undefined when there is none within five years. */
  next(after: number): number | undefined;
}

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const horizonYears = 5;
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
  /** Written with a star: then the other one of the two day fields decides alone. */
  readonly any: boolean;
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

/** `*`, `?`, `5`, `1-5`, each with `/step`. A single number with a step goes on to the end. */
function parseRange(text: string, bounds: Bounds): { readonly values: readonly number[]; readonly any: boolean } {
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
  return { values, any: star && step === 1 };
}

function parseField(text: string, bounds: Bounds): Field {
  const ranges = text
    .split(',')
    .filter((part) => part !== '')
    .map((part) => parseRange(part, bounds));
  return { values: new Set(ranges.flatMap(({ values }) => values)), any: ranges.some(({ any }) => any) };
}

/** Works on instants and looks at each on the zone's wall: what the clock skips is not due, what it repeats is due twice. */
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
    const lastYear = this.#zone.wall(at).year + horizonYears;
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
    return this.#day.any || this.#weekday.any ? byDay && byWeekday : byDay || byWeekday;
  }
}

/**
 * A schedule as Kubernetes takes it: five fields, a word such as `@daily`, or `@every 1h30m`; a leading `TZ=` or `CRON_TZ=` names a zone.
 * @throws ScheduleError, and RangeError for a zone that nobody knows
 */
export function parseSchedule(text: string, zone: TimeZone): Schedule {
  const prefixed = /^(?:CRON_)?TZ=(\S*)\s+(.*)$/s.exec(text.trim());
  if (prefixed !== null) return parseSchedule(prefixed[2] ?? '', new TimeZone(prefixed[1] ?? ''));
  const bare = text.trim();
  if (bare === '') throw new ScheduleError('empty spec string');
  if (bare.startsWith('@every ')) {
    const everyMs = Math.max(1000, Math.floor(durationMs(bare.slice('@every '.length)) / 1000) * 1000);
    return { next: (after) => Math.floor(after / 1000) * 1000 + everyMs };
  }
  if (bare.startsWith('@')) {
    const known = descriptors[bare];
    if (known === undefined) throw new ScheduleError(`unrecognized descriptor: ${bare}`);
    return new CronSchedule(known, zone);
  }
  return new CronSchedule(bare, zone);
}
