const months = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];
const days = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'];
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
  { min: 0, max: 6, names: days },
];
const descriptors: ReadonlySet<string> = new Set(['@yearly', '@annually', '@monthly', '@weekly', '@daily', '@midnight', '@hourly']);

/** Returns the error of a schedule of five fields or a descriptor such as `@daily`; undefined if it is valid. */
export function cronScheduleError(schedule: string): string | undefined {
  if (schedule.startsWith('@')) {
    if (descriptors.has(schedule)) return undefined;
    const every = /^@every (.*)$/.exec(schedule)?.[1];
    if (every === undefined) return `unrecognized descriptor: ${schedule}`;
    return /^([+-]?(\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h))+$/.test(every)
      ? undefined
      : `failed to parse duration ${schedule}: time: invalid duration ${JSON.stringify(every)}`;
  }
  const parts = schedule.split(/\s+/).filter((part) => part !== '');
  if (parts.length !== fields.length) return `expected exactly 5 fields, found ${parts.length}: [${parts.join(' ')}]`;
  for (const [i, bounds] of fields.entries())
    for (const item of (parts[i] ?? '').split(',')) {
      const fault = cronRangeError(item, bounds);
      if (fault !== undefined) return fault;
    }
  return undefined;
}

/** `number | number "-" number [ "/" number ]`, or `*` and `?` for all values. */
function cronRangeError(expression: string, bounds: Bounds): string | undefined {
  const steps = expression.split('/');
  const ends = (steps[0] ?? '').split('-');
  const all = ends[0] === '*' || ends[0] === '?';
  if (ends.length > 2) return `too many hyphens: ${expression}`;
  if (steps.length > 2) return `too many slashes: ${expression}`;
  const numbers = all ? [bounds.min, bounds.max] : ends.map((text) => numberOf(text, bounds));
  for (const number of numbers) if (typeof number === 'string') return number;
  const [from = 0, to = from] = numbers as number[];
  const end = ends.length === 1 && !all && steps.length === 2 ? bounds.max : to;
  if (from < bounds.min) return `beginning of range (${from}) below minimum (${bounds.min}): ${expression}`;
  if (end > bounds.max) return `end of range (${end}) above maximum (${bounds.max}): ${expression}`;
  if (from > end) return `beginning of range (${from}) beyond end of range (${end}): ${expression}`;
  if (steps.length === 1) return undefined;
  const step = numberOf(steps[1] ?? '', { min: 0, max: 0 });
  if (typeof step === 'string') return step;
  return step === 0 ? `step of range should be a positive number: ${expression}` : undefined;
}

function numberOf(text: string, { names = [], min }: Bounds): number | string {
  const named = names.indexOf(text.toLowerCase());
  if (named >= 0) return named + min;
  return /^\d{1,9}$/.test(text)
    ? Number(text)
    : `failed to parse int from ${text}: strconv.Atoi: parsing ${JSON.stringify(text)}: invalid syntax`;
}
