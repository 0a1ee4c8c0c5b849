import { text } from '../text/en.ts';

const { seconds, minutes, hours, days, years } = text.time;

/** Returns a duration as kubectl prints ages: `45s`, `3m20s`, `5h`, `2d3h`, `12d`. */
export function duration(ms: number): string {
  if (!Number.isFinite(ms)) return text.time.unknown;
  const total = Math.max(0, Math.floor(ms / 1000));
  const minute = Math.floor(total / 60);
  const hour = Math.floor(minute / 60);
  const day = Math.floor(hour / 24);
  if (total < 120) return `${total}${seconds}`;
  if (minute < 10) return twoUnits([minute, minutes], [total % 60, seconds]);
  if (minute < 180) return `${minute}${minutes}`;
  if (hour < 8) return twoUnits([hour, hours], [minute % 60, minutes]);
  if (hour < 48) return `${hour}${hours}`;
  if (day < 8) return twoUnits([day, days], [hour % 24, hours]);
  if (day < 2 * 365) return `${day}${days}`;
  const year = Math.floor(day / 365);
  return year < 8 ? twoUnits([year, years], [day % 365, days]) : `${year}${years}`;
}

type Part = readonly [count: number, unit: string];
const twoUnits = (coarse: Part, fine: Part): string => (fine[0] === 0 ? [coarse] : [coarse, fine]).flat().join('');

const unitSeconds: Readonly<Record<string, number>> = {
  [years]: 365 * 86_400,
  [days]: 86_400,
  [hours]: 3_600,
  [minutes]: 60,
  [seconds]: 1,
};

/** Returns the milliseconds of a duration that a server printed; undefined for other texts. */
export function parseDuration(printed: string): number | undefined {
  if (!/^(\d+[a-z])+$/.test(printed)) return undefined;
  let total = 0;
  for (const [, count, unit = ''] of printed.matchAll(/(\d+)([a-z])/g)) total += Number(count) * (unitSeconds[unit] ?? NaN);
  return Number.isNaN(total) ? undefined : total * 1000;
}

/** Returns the age of a timestamp. */
export const ageOf = (timestamp: string | undefined, now: number): string => duration(now - Date.parse(timestamp ?? ''));
