/**
 * Formats a duration as kubectl shows ages: at most two units; the smaller unit is shown only while the larger one is small (`HumanDuration` of
 * apimachinery).
 */
export function humanDuration(milliseconds: number): string {
  const seconds = Math.trunc(milliseconds / 1000);
  if (seconds < -1) return '<invalid>';
  if (seconds < 0) return '0s';
  if (seconds < 120) return `${seconds}s`;
  const minutes = Math.trunc(seconds / 60);
  if (minutes < 10) return twoUnits(minutes, 'm', seconds % 60, 's');
  if (minutes < 180) return `${minutes}m`;
  const hours = Math.trunc(minutes / 60);
  if (hours < 8) return twoUnits(hours, 'h', minutes % 60, 'm');
  if (hours < 48) return `${hours}h`;
  if (hours < 192) return twoUnits(Math.trunc(hours / 24), 'd', hours % 24, 'h');
  const days = Math.trunc(hours / 24);
  if (hours < 24 * 365 * 2) return `${days}d`;
  const years = Math.trunc(days / 365);
  return hours < 24 * 365 * 8 ? twoUnits(years, 'y', days % 365, 'd') : `${years}y`;
}

const twoUnits = (coarse: number, unit: string, fine: number, fineUnit: string) =>
  fine === 0 ? `${coarse}${unit}` : `${coarse}${unit}${fine}${fineUnit}`;

/** Formats the time from a timestamp until now as an age. */
export function since(time: string | null | undefined, now: number): string {
  if (time === undefined || time === null || time === '') return '<unknown>';
  const at = Date.parse(time);
  return Number.isNaN(at) ? '<unknown>' : humanDuration(now - at);
}
