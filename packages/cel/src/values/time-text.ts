import { formatDuration, parseDuration } from '@oarlock/api/values/duration';
import { ParseError } from '@oarlock/api/values/parse-error';
import { parseTime } from '@oarlock/api/values/time';
import { CelError } from './cel-error.ts';
import { Duration, Timestamp } from './value.ts';

/** Parses a Go duration such as `1h30m`. @throws CelError with code `invalid-argument` if the text is not a valid duration */
export function parseDurationText(text: string): Duration {
  try {
    return new Duration(parseDuration(text));
  } catch (error) {
    if (error instanceof ParseError) throw new CelError('invalid-argument', error.message, { cause: error });
    throw error;
  }
}

/**
 * Parses an RFC 3339 time with up to nine fractional digits.
 * @throws CelError with code `invalid-argument` if the text is not a valid time
 */
export function parseTimestampText(text: string): Timestamp {
  const seconds = parseTime(text.replace(/\.\d+/, ''));
  const fraction = /\.(\d{1,9})(?=Z|[+-])/.exec(text)?.[1] ?? '';
  if (seconds === undefined || (text.includes('.') && fraction === ''))
    throw new CelError(
      'invalid-argument',
      `parsing time ${JSON.stringify(text)} as "2006-01-02T15:04:05Z07:00": cannot parse ${JSON.stringify(text)}`,
    );
  return new Timestamp(BigInt(seconds) * 1_000_000n + BigInt(fraction.padEnd(9, '0')));
}

export function formatTimestamp({ nanos }: Timestamp): string {
  const fraction = ((nanos % 1_000_000_000n) + 1_000_000_000n) % 1_000_000_000n;
  const seconds = Number((nanos - fraction) / 1_000_000n);
  const text = new Date(seconds).toISOString().slice(0, 19);
  return `${text}${fraction === 0n ? '' : `.${fraction.toString().padStart(9, '0').replace(/0+$/, '')}`}Z`;
}

/** Formats a duration in seconds: `5400s`, `0.25s`. */
export function formatSeconds({ nanos }: Duration): string {
  const magnitude = nanos < 0n ? -nanos : nanos;
  const fraction = (magnitude % 1_000_000_000n).toString().padStart(9, '0').replace(/0+$/, '');
  return `${nanos < 0n ? '-' : ''}${magnitude / 1_000_000_000n}${fraction === '' ? '' : `.${fraction}`}s`;
}
export { formatDuration };

/** A date and time of day in a time zone. `dayOfYear` and `weekday` start at 0. */
export interface CivilTime {
  readonly year: number;
  readonly month: number;
  readonly day: number;
  readonly weekday: number;
  readonly dayOfYear: number;
  readonly hour: number;
  readonly minute: number;
  readonly second: number;
  readonly millisecond: number;
}

const offsetPattern = /^([+-]?)(\d\d):(\d\d)$/;
const zones = new Map<string, Intl.DateTimeFormat>();
const maxZones = 256;

/**
 * Converts a time to the date and time of day in a time zone: `UTC`, `America/Los_Angeles`, `+02:00`.
 * @throws CelError with code `invalid-argument` if the time zone is unknown
 */
export function civilTime({ nanos }: Timestamp, zone = 'UTC'): CivilTime {
  const millis = Number(nanos / 1_000_000n) - (nanos < 0n && nanos % 1_000_000n !== 0n ? 1 : 0);
  return civil(millis + offsetOf(zone, millis));
}

function civil(local: number): CivilTime {
  const date = new Date(local);
  const year = date.getUTCFullYear();
  const start = new Date(0);
  start.setUTCFullYear(year, 0, 1);
  return {
    year,
    month: date.getUTCMonth(),
    day: date.getUTCDate(),
    weekday: date.getUTCDay(),
    dayOfYear: Math.floor((local - start.getTime()) / 86_400_000),
    hour: date.getUTCHours(),
    minute: date.getUTCMinutes(),
    second: date.getUTCSeconds(),
    millisecond: date.getUTCMilliseconds(),
  };
}

/** Returns the UTC offset of a time zone at the given time, in milliseconds. */
function offsetOf(zone: string, millis: number): number {
  if (zone === 'UTC' || zone === '') return 0;
  const fixed = offsetPattern.exec(zone);
  if (fixed !== null) {
    const [, sign, hours = '0', minutes = '0'] = fixed;
    return (sign === '-' ? -1 : 1) * (Number(hours) * 60 + Number(minutes)) * 60_000;
  }
  let format = zones.get(zone);
  if (format === undefined) {
    try {
      format = new Intl.DateTimeFormat('en-US', {
        timeZone: zone,
        hourCycle: 'h23',
        era: 'short',
        year: 'numeric',
        month: 'numeric',
        day: 'numeric',
        hour: 'numeric',
        minute: 'numeric',
        second: 'numeric',
      });
    } catch (error) {
      throw new CelError('invalid-argument', `unknown time zone ${zone}`, { cause: error });
    }
    if (zones.size < maxZones) zones.set(zone, format);
  }
  const parts: Record<string, string> = {};
  for (const { type, value } of format.formatToParts(millis)) parts[type] = value;
  const of = (name: string) => Number(parts[name] ?? 0);
  const local = new Date(0);
  local.setUTCFullYear(parts['era'] === 'BC' ? 1 - of('year') : of('year'), of('month') - 1, of('day'));
  local.setUTCHours(of('hour'), of('minute'), of('second'));
  return local.getTime() - Math.floor(millis / 1000) * 1000;
}
