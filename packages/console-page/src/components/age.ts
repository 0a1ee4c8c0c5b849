import { text } from '../text/en.ts';

const { seconds, minutes, hours, days } = text.time;

/** Returns a duration as kubectl prints ages: `45s`, `3m20s`, `5h`, `12d`. */
export function duration(ms: number): string {
  if (!Number.isFinite(ms)) return text.time.unknown;
  const total = Math.max(0, Math.floor(ms / 1000));
  if (total < 120) return `${total}${seconds}`;
  const minute = Math.floor(total / 60);
  if (minute < 10) return `${minute}${minutes}${total % 60 === 0 ? '' : `${total % 60}${seconds}`}`;
  if (minute < 180) return `${minute}${minutes}`;
  const hour = Math.floor(minute / 60);
  if (hour < 8) return `${hour}${hours}${minute % 60 === 0 ? '' : `${minute % 60}${minutes}`}`;
  if (hour < 48) return `${hour}${hours}`;
  return `${Math.floor(hour / 24)}${days}`;
}

/** Returns the age of a timestamp. */
export const ageOf = (timestamp: string | undefined, now: number): string => duration(now - Date.parse(timestamp ?? ''));
