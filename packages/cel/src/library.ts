import {
  bool,
  bytes,
  double,
  duration,
  dyn,
  int,
  list,
  map,
  nullType,
  opaque,
  optional,
  param,
  string,
  timestamp,
  typeOf,
  uint,
  type Type,
} from './type.ts';
import { kindOf, Opaque, type Value } from './value.ts';

export interface Overload {
  /** The receiver first. */
  readonly params: readonly Type[];
  readonly result: Type;
  readonly member: boolean;
  /** The last parameter may come any number of times, at least once. */
  readonly rest: boolean;
}
/** From the sizes of the arguments, in their order. Must grow with them: the static estimate asks for the smallest and the largest. */
export type SizeRule = (...sizes: number[]) => number;

export interface Fn {
  readonly name: string;
  readonly overloads: readonly Overload[];
  /** Checks nothing that the overloads say already. */
  readonly call: (...args: never[]) => Value;
  /** 1 unless told. */
  readonly cost: SizeRule | undefined;
  /** What it costs besides, by the size of what it returned. */
  readonly made: ((size: number) => number) | undefined;
  /** Of what it returns, where the static estimate can know. */
  readonly size: SizeRule | undefined;
  /** It may know what it says after a glance: the static estimate takes 1 for the least. Opaque values are compared at once. */
  readonly compares: boolean;
  /** It sees by itself what it is given, and refuses what none of its overloads takes. */
  readonly dynamic: boolean;
}
export interface FnRules {
  readonly cost?: SizeRule;
  readonly made?: (size: number) => number;
  readonly size?: SizeRule;
  readonly compares?: boolean;
  readonly dynamic?: boolean;
}
export interface Library {
  readonly name: string;
  readonly functions: readonly Fn[];
}

/** Of reading a string from end to end. */
export const traversal = (size: number): number => Math.ceil(size * 0.1);
/** Of a regular expression of a length on a text of another. */
export const regexCost = (text: number, pattern: number): number => Math.ceil((1 + text) * 0.1) * Math.ceil(pattern * 0.25);

const named: Readonly<Record<string, Type>> = {
  bool,
  int,
  uint,
  double,
  string,
  bytes,
  null: nullType,
  timestamp,
  duration,
  dyn,
  type: typeOf(),
};

/** `list<A>`, `map<string, dyn>`, `optional<A>`; a capital letter is a parameter, and any other name an opaque type. */
export function parseType(text: string): Type {
  const trimmed = text.trim();
  const simple = Object.hasOwn(named, trimmed) ? named[trimmed] : undefined;
  if (simple !== undefined) return simple;
  if (/^[A-Z]$/.test(trimmed)) return param(trimmed);
  const generic = /^(list|map|optional|type)<(.*)>$/.exec(trimmed);
  if (generic === null) return opaque(trimmed);
  const [first, second] = splitTop(generic[2] ?? '').map(parseType) as [Type, Type];
  switch (generic[1]) {
    case 'list':
      return list(first);
    case 'map':
      return map(first, second);
    case 'type':
      return typeOf(first);
    default:
      return optional(first);
  }
}

function splitTop(text: string): string[] {
  const parts: string[] = [];
  let depth = 0;
  let start = 0;
  for (let i = 0; i <= text.length; i++) {
    const char = text[i];
    if (char === '<') depth++;
    else if (char === '>') depth--;
    else if ((char === ',' && depth === 0) || char === undefined) {
      if (text.slice(start, i).trim() !== '') parts.push(text.slice(start, i));
      start = i + 1;
    }
  }
  return parts;
}

/**
 * A function by its signatures, one per overload: `(string).contains(string): bool` is called on its receiver, `math.abs(int): int` by its
 * name, and `...` after the last parameter lets it repeat.
 */
export function fn(
  signatures: string | readonly string[],
  call: Fn['call'],
  { cost, made, size, compares = false, dynamic = false }: FnRules = {},
): Fn {
  let name = '';
  const overloads = (typeof signatures === 'string' ? [signatures] : signatures).map((signature): Overload => {
    const match = /^(?:\(([^)]*)\)\.)?([^(]+)\((.*)\)\s*:\s*([^:]+)$/.exec(signature);
    if (match === null) throw new Error(`not a signature: ${signature}`);
    const [, receiver, called = '', params = '', result = ''] = match;
    name = called;
    const rest = params.endsWith('...');
    const types = splitTop(rest ? params.slice(0, -3) : params).map(parseType);
    return {
      params: receiver === undefined ? types : [parseType(receiver), ...types],
      result: parseType(result),
      member: receiver !== undefined,
      rest,
    };
  });
  return { name, overloads, call, cost, made, size, compares, dynamic };
}

/** Whether a value is of a type, as far as one can see without looking into it. */
export function isOf(type: Type, value: Value): boolean {
  const kind = kindOf(value);
  switch (type.kind) {
    case 'dyn':
    case 'param':
    case 'error':
      return true;
    case 'object':
      return kind === 'map';
    case 'opaque':
      return type.name === 'optional_type' ? kind === 'optional' : value instanceof Opaque && value.typeName === type.name;
    default:
      return type.kind === kind;
  }
}

export function accepts({ params, rest }: Overload, args: readonly Value[]): boolean {
  if (rest ? args.length < params.length : args.length !== params.length) return false;
  return args.every((arg, i) => isOf((params[i] ?? params.at(-1)) as Type, arg));
}
