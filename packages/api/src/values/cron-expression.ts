import { durationMs } from './duration.ts';
import { ParseError } from './parse-error.ts';

/** One field of a cron expression. */
export interface CronField {
  readonly values: ReadonlySet<number>;
  /** True if the field contains `*` or `?` without a step above 1. */
  readonly hasStar: boolean;
}

/** The five fields of a cron expression. `weekday` is 0 for Sunday. */
export interface CronFields {
  readonly minute: CronField;
  readonly hour: CronField;
  readonly day: CronField;
  readonly month: CronField;
  readonly weekday: CronField;
}

/** Fields, or the interval of `@every` in milliseconds: whole seconds, at least one. */
export type CronExpression = CronFields | { readonly everyMs: number };

interface Bounds {
  readonly min: number;
  readonly max: number;
  readonly names?: readonly string[];
}

const months = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];
const weekdays = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'];
const fieldBounds: readonly (readonly [keyof CronFields, Bounds])[] = [
  ['minute', { min: 0, max: 59 }],
  ['hour', { min: 0, max: 23 }],
  ['day', { min: 1, max: 31 }],
  ['month', { min: 1, max: 12, names: months }],
  ['weekday', { min: 0, max: 6, names: weekdays }],
];
const descriptors: ReadonlyMap<string, string> = new Map([
  ['@yearly', '0 0 1 1 *'],
  ['@annually', '0 0 1 1 *'],
  ['@monthly', '0 0 1 * *'],
  ['@weekly', '0 0 * * 0'],
  ['@daily', '0 0 * * *'],
  ['@midnight', '0 0 * * *'],
  ['@hourly', '0 * * * *'],
]);
const everyPrefix = '@every ';
/** Limits the processor time of a parse. Kubernetes has no such limit. A list of every value of every field has 400 characters. */
const maxLength = 8192;

/**
 * Parses the syntax of robfig/cron's ParseStandard, without its time zone prefix: five fields, a descriptor such as `@daily`, or `@every 1h30m`.
 * @throws ParseError code `cron`, with the message of that library
 */
export function parseCronExpression(text: string): CronExpression {
  if (text === '') throw fault('empty spec string');
  if (text.length > maxLength) throw fault(`expected at most ${maxLength} characters, found ${text.length}`);
  if (text.startsWith(everyPrefix)) return { everyMs: everyMs(text) };
  if (!text.startsWith('@')) return parseFields(text);
  const fields = descriptors.get(text);
  if (fields === undefined) throw fault(`unrecognized descriptor: ${text}`);
  return parseFields(fields);
}

const fault = (message: string) => new ParseError('cron', message);

function everyMs(text: string): number {
  try {
    return Math.max(1000, Math.floor(durationMs(text.slice(everyPrefix.length)) / 1000) * 1000);
  } catch (error) {
    if (!(error instanceof ParseError)) throw error;
    throw fault(`failed to parse duration ${text}: ${error.message}`);
  }
}

function parseFields(text: string): CronFields {
  const parts = text.split(/\s+/).filter((part) => part !== '');
  if (parts.length !== fieldBounds.length) throw fault(`expected exactly 5 fields, found ${parts.length}: [${parts.join(' ')}]`);
  return Object.fromEntries(fieldBounds.map(([name, bounds], at) => [name, parseField(parts[at] ?? '', bounds)])) as unknown as CronFields;
}

function parseField(text: string, bounds: Bounds): CronField {
  const ranges = text
    .split(',')
    .filter((part) => part !== '')
    .map((part) => parseRange(part, bounds));
  return { values: new Set(ranges.flatMap(({ values }) => values)), hasStar: ranges.some(({ hasStar }) => hasStar) };
}

/** Parses one range of a field: `*`, `?`, `5` or `1-5`, each with an optional `/step`. A single number with a step extends to the maximum. */
function parseRange(text: string, bounds: Bounds): { readonly values: readonly number[]; readonly hasStar: boolean } {
  const [range = '', stepText, ...moreSteps] = text.split('/');
  const [fromText = '', toText, ...moreEnds] = range.split('-');
  const isStar = fromText === '*' || fromText === '?';
  if (!isStar && moreEnds.length > 0) throw fault(`too many hyphens: ${text}`);
  const from = isStar ? bounds.min : parseNumber(fromText, bounds);
  const to = isStar ? bounds.max : toText === undefined ? from : parseNumber(toText, bounds);
  if (moreSteps.length > 0) throw fault(`too many slashes: ${text}`);
  const step = stepText === undefined ? 1 : parseNumber(stepText);
  const end = toText === undefined && stepText !== undefined ? bounds.max : to;
  if (from < bounds.min) throw fault(`beginning of range (${from}) below minimum (${bounds.min}): ${text}`);
  if (end > bounds.max) throw fault(`end of range (${end}) above maximum (${bounds.max}): ${text}`);
  if (from > end) throw fault(`beginning of range (${from}) beyond end of range (${end}): ${text}`);
  if (step === 0) throw fault(`step of range should be a positive number: ${text}`);
  const values: number[] = [];
  for (let value = from; value <= end; value += step) values.push(value);
  return { values, hasStar: isStar && step === 1 };
}

const maxInt64 = 2n ** 63n - 1n;

/** Parses a name of the field, or an integer in Go's syntax. */
function parseNumber(text: string, { names, min }: Partial<Bounds> = {}): number {
  const named = names?.indexOf(text.toLowerCase()) ?? -1;
  if (named >= 0) return named + (min ?? 0);
  const atoiFault = (reason: string) => fault(`failed to parse int from ${text}: strconv.Atoi: parsing ${JSON.stringify(text)}: ${reason}`);
  if (!/^[+-]?\d+$/.test(text)) throw atoiFault('invalid syntax');
  // 20 characters hold a sign and every 64-bit integer without leading zeros
  if (text.length > 20 || BigInt(text.replace('+', '')) > maxInt64) throw atoiFault('value out of range');
  const number = Number(text);
  if (number < 0) throw fault(`negative number (${number}) not allowed: ${text}`);
  return number;
}
