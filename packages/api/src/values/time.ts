import type { Time } from '../object.ts';

// calls within the same second return the cached text
let last: { readonly second: number; readonly text: Time } = { second: Number.NaN, text: '' };

/** Formats a time as metav1.Time: `2026-01-31T12:00:00Z`. Takes a Date or milliseconds since the epoch. */
export function formatTime(date: Date | number): Time {
  const second = Math.floor(Number(date) / 1000);
  if (second !== last.second) last = { second, text: `${new Date(date).toISOString().slice(0, 19)}Z` };
  return last.text;
}

/** Formats a time as metav1.MicroTime (Leases, Events): `2026-01-31T12:00:00.123000Z`. */
export function formatMicroTime(date: Date | number): string {
  return `${new Date(date).toISOString().slice(0, 23)}000Z`;
}

const rfc3339 = /^(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?(Z|[+-]\d\d:\d\d)$/;

/** Parses RFC 3339; returns milliseconds since the epoch, or undefined if the text is invalid. */
export function parseTime(text: string): number | undefined {
  const match = rfc3339.exec(text);
  if (match === null) return undefined;
  const [, year, month, day, hour, minute, second, fraction = '', zone = 'Z'] = match;
  const at = Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}${fraction === '' ? '' : `.${fraction.slice(0, 3)}`}${zone}`);
  if (Number.isNaN(at) || Number(hour) > 23) return undefined;
  const date = text.slice(0, 10);
  if (date === known) return at;
  // Date.parse reads February 30th as March 2nd. Adding 400 years keeps the calendar and avoids Date.UTC's mapping of years below 100.
  const days = new Date(Date.UTC(Number(year) + 400, Number(month), 0)).getUTCDate();
  if (Number(day) > days) return undefined;
  known = date;
  return at;
}

/** The last valid date: most times are of the current day. */
let known = '';

const wholeSeconds = '2026-01-31T12:00:00Z'.length;

/** Returns a time in the stored form, whole seconds in UTC, or undefined if the text is not RFC 3339. */
export function canonicalTime(text: string): Time | undefined {
  const at = parseTime(text);
  if (at === undefined) return undefined;
  return text.length === wholeSeconds ? text : formatTime(Math.floor(at / 1000) * 1000);
}

const microTime = /\.\d{6}Z$/;

/** As `canonicalTime` with microseconds in six digits. */
export function canonicalMicroTime(text: string): string | undefined {
  const at = parseTime(text);
  if (at === undefined) return undefined;
  if (microTime.test(text)) return text;
  const fraction = (rfc3339.exec(text)?.[7] ?? '').padEnd(6, '0').slice(0, 6);
  return `${formatTime(Math.floor(at / 1000) * 1000).slice(0, 19)}.${fraction}Z`;
}
