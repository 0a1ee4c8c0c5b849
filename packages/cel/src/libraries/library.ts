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
} from '../types/type.ts';
import { kindOf, Opaque, type Value } from '../values/value.ts';

export interface Overload {
  /** The types of the parameters. The first parameter of a member function is its receiver. */
  readonly params: readonly Type[];
  readonly result: Type;
  readonly member: boolean;
  /** True if the last parameter can be repeated; the call has at least one argument for it. */
  readonly rest: boolean;
}
/** Computes the cost of a call from the sizes of the arguments. */
export type SizeRule = (...sizes: number[]) => number;

export interface FunctionDeclaration {
  readonly name: string;
  readonly overloads: readonly Overload[];
  /** The implementation, which is called with arguments that match an overload. */
  readonly call: (...args: never[]) => Value;
  /** The cost of a call, from the sizes of the arguments; 1 if undefined. */
  readonly cost: SizeRule | undefined;
  /** The additional cost of a call, from its arguments, if the sizes of the arguments do not determine the cost. */
  readonly argumentCost: ((...args: never[]) => number) | undefined;
  /** The additional cost of a call, from the size of the result. */
  readonly resultSize: ((size: number) => number) | undefined;
  /** True for comparisons. Comparing opaque values has a constant cost. */
  readonly compares: boolean;
  /** True if the implementation dispatches by argument type and throws for unsupported types itself. */
  readonly dynamic: boolean;
}
export interface FunctionRules {
  readonly cost?: SizeRule;
  readonly argumentCost?: (...args: never[]) => number;
  readonly resultSize?: (size: number) => number;
  readonly compares?: boolean;
  readonly dynamic?: boolean;
}
export interface Library {
  readonly name: string;
  readonly functions: readonly FunctionDeclaration[];
}

/** Returns the cost of reading a string of `size` characters. */
export const traversal = (size: number): number => Math.ceil(size * 0.1);
/** Returns the cost of matching a string with a regular expression, from the lengths of both. */
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

/**
 * Parses the notation of a type: `list<A>`, `map<string, dyn>`, `optional<A>`. A capital letter is a type parameter, any other unknown name
 * an opaque type.
 */
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
 * Declares a function by its signatures, one per overload: `(string).contains(string): bool` is called on its receiver, `math.abs(int): int` by
 * its name; `...` after the last parameter lets it repeat.
 */
export function fn(
  signatures: string | readonly string[],
  call: FunctionDeclaration['call'],
  { cost, argumentCost, resultSize, compares = false, dynamic = false }: FunctionRules = {},
): FunctionDeclaration {
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
  return { name, overloads, call, cost, argumentCost, resultSize, compares, dynamic };
}

/** Returns true if a value has the type. Does not check the elements of lists and maps. */
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
