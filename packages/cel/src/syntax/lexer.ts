import { CelSyntaxError } from './issue.ts';
import { doubleOf, maxInt, maxUint, Uint, type Value } from '../values/value.ts';

export type TokenKind = 'end' | 'ident' | 'literal' | 'punct' | 'number';
export interface Token {
  readonly kind: TokenKind;
  readonly at: number;
  /** The source text of punctuation, an identifier or a keyword. */
  readonly text: string;
  readonly value?: Value;
}

const punctuation = ['&&', '||', '==', '!=', '<=', '>=', ...'?:.,+-*/%()[]{}<>!'];
const space = /(?:[\t\n\f\r ]+|\/\/[^\n]*)*/y;
const word = /[A-Za-z_][A-Za-z0-9_]*/y;
const number = /0x([0-9a-fA-F]+)([uU]?)|((?:\d+\.\d+|\.\d+)(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)|(\d+)([uU]?)/y;
const quoteStart = /([rR]?[bB]?|[bB][rR])("""|'''|"|')/y;

/**
 * Returns all tokens of an expression. Number literals have no sign, so 2^63 is accepted: a `-` may precede it.
 * @throws CelSyntaxError if the text contains an invalid token
 */
export function tokens(source: string): Token[] {
  const found: Token[] = [];
  let at = 0;
  const match = (pattern: RegExp): RegExpExecArray | null => {
    pattern.lastIndex = at;
    return pattern.exec(source);
  };
  for (;;) {
    at += match(space)?.[0].length ?? 0;
    if (at >= source.length) {
      found.push({ kind: 'end', at: source.length, text: '<EOF>' });
      return found;
    }
    const quoted = match(quoteStart);
    if (quoted !== null) {
      const [token, end] = stringToken(source, at, quoted[1] ?? '', quoted[2] ?? '"');
      found.push(token);
      at = end;
      continue;
    }
    const digits = match(number);
    if (digits !== null) {
      found.push({ kind: 'number', at, text: digits[0], value: numberValue(digits, at) });
      at += digits[0].length;
      continue;
    }
    const name = match(word);
    if (name !== null) {
      found.push({ kind: 'ident', at, text: name[0] });
      at += name[0].length;
      continue;
    }
    const punct = punctuation.find((text) => source.startsWith(text, at));
    if (punct === undefined)
      throw new CelSyntaxError(at, `Syntax error: token recognition error at: '${String.fromCodePoint(source.codePointAt(at) ?? 0)}'`);
    found.push({ kind: 'punct', at, text: punct });
    at += punct.length;
  }
}

function numberValue([text, hex, hexUnsigned, float, decimal, unsigned]: RegExpExecArray, at: number): Value {
  if (float !== undefined) {
    const value = Number(float);
    if (!Number.isFinite(value)) throw new CelSyntaxError(at, 'invalid double literal');
    return doubleOf(value);
  }
  const value = BigInt(hex === undefined ? (decimal ?? '0') : `0x${hex}`);
  if (hexUnsigned || unsigned) {
    if (value > maxUint) throw new CelSyntaxError(at, `invalid uint literal`);
    return new Uint(value);
  }
  if (value > maxInt + 1n) throw new CelSyntaxError(at, `invalid int literal`);
  return value <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(text) : value;
}

function stringToken(source: string, at: number, prefix: string, quote: string): [Token, number] {
  const raw = /[rR]/.test(prefix);
  const asBytes = /[bB]/.test(prefix);
  const long = quote.length === 3;
  let i = at + prefix.length + quote.length;
  let text = '';
  const octets: number[] = [];
  const add = (piece: string) => {
    if (asBytes) octets.push(...Buffer.from(piece));
    else text += piece;
  };
  for (;;) {
    if (i >= source.length) throw new CelSyntaxError(at, `Syntax error: token recognition error at: '${source.slice(at)}'`);
    if (source.startsWith(quote, i)) break;
    const char = source[i] as string;
    if (char === '\n' && !long) throw new CelSyntaxError(at, `Syntax error: token recognition error at: '${source.slice(at, i)}'`);
    if (char !== '\\' || raw) {
      const plain = String.fromCodePoint(source.codePointAt(i) ?? 0);
      add(plain);
      i += plain.length;
      continue;
    }
    const escape = readEscape(source, i, asBytes);
    if (escape === undefined) throw new CelSyntaxError(at, `Syntax error: token recognition error at: '${source.slice(at, i + 2)}'`);
    if (escape.octet) octets.push(escape.code);
    else add(String.fromCodePoint(escape.code));
    i = escape.end;
  }
  const value = asBytes ? Uint8Array.from(octets) : text;
  return [{ kind: 'literal', at, text: source.slice(at, i + quote.length), value }, i + quote.length];
}

const simpleEscapes: Readonly<Record<string, number>> = {
  a: 7,
  b: 8,
  f: 12,
  n: 10,
  r: 13,
  t: 9,
  v: 11,
  '\\': 92,
  "'": 39,
  '"': 34,
  '`': 96,
  '?': 63,
};
const coded = /\\(?:[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2}))/y;

function readEscape(
  source: string,
  at: number,
  asBytes: boolean,
): { readonly code: number; readonly end: number; readonly octet: boolean } | undefined {
  const next = source[at + 1] ?? '';
  const simple = Object.hasOwn(simpleEscapes, next) ? simpleEscapes[next] : undefined;
  if (simple !== undefined) return { code: simple, end: at + 2, octet: false };
  coded.lastIndex = at;
  const match = coded.exec(source);
  if (match === null) return undefined;
  const [whole, hex, short, long, octal] = match;
  const code = octal === undefined ? Number.parseInt(hex ?? short ?? long ?? '', 16) : Number.parseInt(octal, 8);
  if (code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return undefined;
  if (asBytes && (short !== undefined || long !== undefined)) return undefined;
  return { code, end: at + whole.length, octet: asBytes };
}
