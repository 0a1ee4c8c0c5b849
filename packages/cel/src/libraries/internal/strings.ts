import { CelError } from '../../values/cel-error.ts';
import { formatText } from './format-text.ts';
import { maxResultSize, tooLong } from './operators.ts';
import { fn, traversal, type Library } from '../library.ts';
import { itemsOf, type ListValue, type Value } from '../../values/value.ts';

/** Returns true if the string has one UTF-16 unit per code point. CEL counts code points, so that other strings cannot be indexed directly. */
const plain = (text: string): boolean => !/[\ud800-\udfff]/.test(text);
const charsOf = (text: string): readonly string[] => Array.from(text);
const at = (index: number) => new CelError('out-of-range', `index out of range: ${index}`);

function charAt(text: string, index: number | bigint): string {
  const i = Number(index);
  const chars = plain(text) ? text : charsOf(text);
  if (i < 0 || i > chars.length) throw at(i);
  return chars[i] ?? '';
}

/** Returns the index, in code points, of the first occurrence of `part` at or after `from`; -1 if there is none. */
function indexOf(text: string, part: string, from: number | bigint = 0): number {
  const start = Number(from);
  if (plain(text)) {
    if (part === '') return start;
    if (start < 0 || start > text.length) throw at(start);
    return text.indexOf(part, start);
  }
  const chars = charsOf(text);
  if (part === '') return start;
  if (start < 0 || start > chars.length) throw at(start);
  const units = chars.slice(0, start).join('').length;
  const found = text.indexOf(part, units);
  return found < 0 ? -1 : charsOf(text.slice(0, found)).length;
}

function lastIndexOf(text: string, part: string, from?: number | bigint): number {
  const chars = plain(text) ? text : charsOf(text);
  const start = from === undefined ? undefined : Number(from);
  if (start !== undefined && (start < 0 || start > chars.length)) throw at(start);
  if (part === '') return start ?? chars.length;
  if (typeof chars === 'string') return text.lastIndexOf(part, start);
  const units = start === undefined ? undefined : chars.slice(0, start).join('').length;
  const found = text.lastIndexOf(part, units);
  return found < 0 ? -1 : charsOf(text.slice(0, found)).length;
}

function substring(text: string, start: number | bigint, end?: number | bigint): string {
  const chars = plain(text) ? text : charsOf(text);
  const [from, to] = [Number(start), end === undefined ? chars.length : Number(end)];
  if (from < 0 || from > chars.length) throw at(from);
  if (to < 0 || to > chars.length) throw at(to);
  if (from > to) throw new CelError('out-of-range', `invalid substring range. start: ${from}, end: ${to}`);
  return typeof chars === 'string' ? chars.slice(from, to) : chars.slice(from, to).join('');
}

function replace(text: string, old: string, by: string, count: number | bigint = -1): string {
  const limit = Number(count) < 0 ? Number.POSITIVE_INFINITY : Number(count);
  const pieces = old === '' ? ['', ...charsOf(text), ''] : text.split(old);
  const times = Math.min(limit, pieces.length - 1);
  if (text.length + times * by.length > maxResultSize) throw tooLong();
  if (old !== '' && times === pieces.length - 1) return pieces.join(by);
  // an empty text matches before each character and at the end
  if (old === '') {
    const chars = charsOf(text);
    let result = '';
    for (let i = 0; i <= chars.length; i++) result += (i < limit ? by : '') + (chars[i] ?? '');
    return result;
  }
  return (
    pieces.slice(0, times + 1).join(by) +
    pieces
      .slice(times + 1)
      .map((piece) => old + piece)
      .join('')
  );
}

function split(text: string, separator: string, count: number | bigint = -1): readonly string[] {
  const limit = Number(count);
  if (limit === 0) return [];
  const pieces = separator === '' ? [...charsOf(text)] : text.split(separator);
  if (limit < 0 || pieces.length <= limit) return pieces;
  return [...pieces.slice(0, limit - 1), pieces.slice(limit - 1).join(separator)];
}

function join(list: ListValue, separator = ''): string {
  let size = 0;
  const pieces = itemsOf(list).map((item) => {
    if (typeof item !== 'string') throw new CelError('no-such-overload', 'no such overload');
    size += item.length + separator.length;
    if (size > maxResultSize) throw tooLong();
    return item;
  });
  return pieces.join(separator);
}

const lower = (text: string) => text.replace(/[A-Z]+/g, (part) => part.toLowerCase());
const upper = (text: string) => text.replace(/[a-z]+/g, (part) => part.toUpperCase());
// Go's unicode.IsSpace
const trim = (text: string) =>
  text.replace(
    /^[\t\n\v\f\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+|[\t\n\v\f\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+$/g,
    '',
  );

const quotes: Readonly<Record<string, string>> = {
  '\x07': '\\a',
  '\b': '\\b',
  '\f': '\\f',
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
  '\v': '\\v',
  '\\': '\\\\',
  '"': '\\"',
};
const quote = (text: string) => `"${Array.from(text, (char) => quotes[char] ?? char).join('')}"`;

const read = { cost: (size: number) => Math.max(1, traversal(size)) };
/** Returns the cost of reading a string and writing a result of the same size. */
const rewritten = (size: number) => Math.ceil(size * 2 * 0.1);

export const strings: Library = {
  name: 'strings',
  functions: [
    fn('(string).charAt(int): string', charAt),
    fn(['(string).indexOf(string): int', '(string).indexOf(string, int): int'], indexOf, read),
    fn(['(string).lastIndexOf(string): int', '(string).lastIndexOf(string, int): int'], lastIndexOf, read),
    fn(['(string).substring(int): string', '(string).substring(int, int): string'], substring, read),
    fn('(string).lowerAscii(): string', lower, read),
    fn('(string).upperAscii(): string', upper, read),
    fn('(string).trim(): string', trim, read),
    fn(['(string).replace(string, string): string', '(string).replace(string, string, int): string'], replace, {
      cost: rewritten,
    }),
    fn(['(string).split(string): list<string>', '(string).split(string, int): list<string>'], split, {
      cost: rewritten,
    }),
    fn(['(list<string>).join(): string', '(list<string>).join(string): string'], join, { cost: () => 0, resultSize: rewritten }),
    fn('(string).format(list<dyn>): string', (text: string, args: ListValue): Value => formatText(text, itemsOf(args)), read),
    fn('strings.quote(string): string', quote, read),
  ],
};

/** `reverse` of strings, which version 3 of cel-go's library of strings has. */
export const stringReversal: Library = {
  name: 'string reversal',
  functions: [fn('(string).reverse(): string', (text: string) => [...charsOf(text)].reverse().join(''), read)],
};
