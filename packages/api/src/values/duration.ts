import { ParseError } from './parse-error.ts';

/** A Go duration in nanoseconds. */
export type Nanoseconds = bigint;

const units: Readonly<Record<string, bigint>> = {
  ns: 1n,
  us: 1_000n,
  µs: 1_000n,
  μs: 1_000n,
  ms: 1_000_000n,
  s: 1_000_000_000n,
  m: 60_000_000_000n,
  h: 3_600_000_000_000n,
};
const max = 2n ** 63n - 1n;
const quote = (text: string) => JSON.stringify(text);

/**
 * Parses the syntax of Go's time.ParseDuration: `1h15m30.918s`, `-1.5h`, `0`.
 * @throws ParseError code `duration`, with Go's message.
 */
export function parseDuration(text: string): Nanoseconds {
  const invalid = () => new ParseError('duration', `time: invalid duration ${quote(text)}`);
  const negative = text.startsWith('-');
  const body = negative || text.startsWith('+') ? text.slice(1) : text;
  if (body === '0') return 0n;
  if (body === '' || body.length > 128) throw invalid();
  const part = /([0-9]*)(?:\.([0-9]*))?([^0-9.]*)/y;
  let total = 0n;
  while (part.lastIndex < body.length) {
    const [, whole = '', fraction = '', unit = ''] = part.exec(body) ?? [];
    if (whole === '' && fraction === '') throw invalid();
    if (unit === '') throw new ParseError('duration', `time: missing unit in duration ${quote(text)}`);
    const size = Object.hasOwn(units, unit) ? units[unit] : undefined;
    if (size === undefined) throw new ParseError('duration', `time: unknown unit ${quote(unit)} in duration ${quote(text)}`);
    total += BigInt(whole || '0') * size + (BigInt(fraction || '0') * size) / 10n ** BigInt(fraction.length);
    if (total > max + (negative ? 1n : 0n)) throw invalid();
  }
  return negative ? -total : total;
}

/** Formats a duration as Go does: `1h15m30.918s`, `1.5ms`, `0s`. */
export function formatDuration(duration: Nanoseconds): string {
  if (duration === 0n) return '0s';
  const sign = duration < 0n ? '-' : '';
  const nanos = duration < 0n ? -duration : duration;
  const decimal = (value: bigint, per: bigint) => {
    const fraction = (value % per)
      .toString()
      .padStart(per.toString().length - 1, '0')
      .replace(/0+$/, '');
    return `${value / per}${fraction === '' ? '' : `.${fraction}`}`;
  };
  if (nanos < 1_000n) return `${sign}${nanos}ns`;
  if (nanos < 1_000_000n) return `${sign}${decimal(nanos, 1_000n)}µs`;
  if (nanos < 1_000_000_000n) return `${sign}${decimal(nanos, 1_000_000n)}ms`;
  const minutes = nanos / 60_000_000_000n;
  const seconds = `${decimal(nanos % 60_000_000_000n, 1_000_000_000n)}s`;
  if (minutes === 0n) return `${sign}${seconds}`;
  const hours = minutes / 60n;
  return hours === 0n ? `${sign}${minutes}m${seconds}` : `${sign}${hours}h${minutes % 60n}m${seconds}`;
}

/** Parses a duration to milliseconds, for timers. @throws ParseError code `duration`. */
export const durationMs = (text: string): number => Number(parseDuration(text)) / 1e6;
