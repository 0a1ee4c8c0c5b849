import { stringifyExact } from './exact-json.ts';
import { isObject } from './json.ts';

/** Formats a value as Go's %v. */
export function goText(value: unknown): string {
  if (value === null || value === undefined) return '<nil>';
  if (Array.isArray(value)) return `[${value.map(goText).join(' ')}]`;
  if (isObject(value)) {
    const keys = Object.keys(value).sort();
    return `map[${keys.map((key) => `${key}:${goText(value[key])}`).join(' ')}]`;
  }
  return String(value as string | number | bigint | boolean);
}
const htmlCharacters = /[<>&\u2028\u2029]/g;

/** Escapes the characters in JSON strings that Go's JSON encoder escapes. They do not occur outside of strings. */
export function escapeHtml(json: string): string {
  return json.replace(htmlCharacters, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

const plain = /^[\x20-\x7e]*$/;
const escapes: Readonly<Record<string, string>> = {
  '\x07': '\\a',
  '\b': '\\b',
  '\f': '\\f',
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
  '\v': '\\v',
};

/** Quotes a text as Go's %q. */
export function goQuote(text: string): string {
  if (plain.test(text)) return JSON.stringify(text);
  const inside = [...text].map((char) => {
    if (char === '"' || char === '\\') return `\\${char}`;
    if (char === ' ' || /^[\p{L}\p{M}\p{N}\p{P}\p{S}]$/u.test(char)) return char;
    const code = char.codePointAt(0) ?? 0;
    const hex = (width: number) => code.toString(16).padStart(width, '0');
    return escapes[char] ?? (code < 0x80 ? `\\x${hex(2)}` : code < 0x1_00_00 ? `\\u${hex(4)}` : `\\U${hex(8)}`);
  });
  return `"${inside.join('')}"`;
}

/** Formats a value as Go's %#v. */
export function goSyntax(value: unknown): string {
  if (Array.isArray(value)) return `[]interface {}{${value.map(goSyntax).join(', ')}}`;
  if (isObject(value))
    return `map[string]interface {}{${Object.keys(value)
      .sort()
      .map((key) => `${JSON.stringify(key)}:${goSyntax(value[key])}`)
      .join(', ')}}`;
  return stringifyExact(value);
}

/** Returns the Go type of a decoded untyped JSON value, as %T prints it. */
export function goTypeOf(value: unknown): string {
  if (value === null || value === undefined) return '<nil>';
  if (typeof value === 'string') return 'string';
  if (typeof value === 'boolean') return 'bool';
  if (typeof value === 'number') return Number.isSafeInteger(value) ? 'int64' : 'float64';
  if (typeof value === 'bigint') return 'int64';
  return Array.isArray(value) ? '[]interface {}' : 'map[string]interface {}';
}
