import { stringifyExact } from './exact-json.ts';
import { isObject } from './json.ts';

/** As Go prints a value with %v. */
export function goText(value: unknown): string {
  if (value === null || value === undefined) return '<nil>';
  if (Array.isArray(value)) return `[${value.map(goText).join(' ')}]`;
  if (isObject(value)) {
    const keys = Object.keys(value).sort();
    return `map[${keys.map((key) => `${key}:${goText(value[key])}`).join(' ')}]`;
  }
  return String(value as string | number | bigint | boolean);
}
/** As Go prints a value with %#v. */
export function goSyntax(value: unknown): string {
  if (Array.isArray(value)) return `[]interface {}{${value.map(goSyntax).join(', ')}}`;
  if (isObject(value))
    return `map[string]interface {}{${Object.keys(value)
      .sort()
      .map((key) => `${JSON.stringify(key)}:${goSyntax(value[key])}`)
      .join(', ')}}`;
  return stringifyExact(value);
}

/** The Go type of a JSON value that has no type of its own, as %T prints it. */
export function goTypeOf(value: unknown): string {
  if (value === null || value === undefined) return '<nil>';
  if (typeof value === 'string') return 'string';
  if (typeof value === 'boolean') return 'bool';
  if (typeof value === 'number') return Number.isSafeInteger(value) ? 'int64' : 'float64';
  if (typeof value === 'bigint') return 'int64';
  return Array.isArray(value) ? '[]interface {}' : 'map[string]interface {}';
}
