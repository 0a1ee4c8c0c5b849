import type { Overload } from '../libraries/library.ts';
import {
  assignable,
  bool,
  bytes,
  double,
  duration,
  dyn,
  int,
  list,
  map,
  nullType,
  object,
  optional,
  param,
  string,
  timestamp,
  typeOf,
  uint,
  type Substitution,
  type Type,
} from '../types/type.ts';
import { kindOf, type Value } from '../values/value.ts';

/** Returns a declared type with its type parameters renamed, so that each call of a generic function binds parameters of its own. */
function withFreshParams(type: Type, suffix: string): Type {
  switch (type.kind) {
    case 'param':
      return param(type.name + suffix);
    case 'list':
      return list(withFreshParams(type.element, suffix));
    case 'map':
      return map(withFreshParams(type.key, suffix), withFreshParams(type.value, suffix));
    case 'opaque':
      return type.parameter === undefined ? type : optional(withFreshParams(type.parameter, suffix));
    case 'type':
      return type.of === undefined ? type : typeOf(withFreshParams(type.of, suffix));
    default:
      return type;
  }
}

export interface OverloadMatch {
  readonly result: Type;
  /** The types to which the type parameters of the call have been bound so far. */
  readonly substitution: Substitution;
}

/**
 * Returns the result type of an overload for the argument types, or undefined if the overload does not accept the arguments. `suffix` makes
 * the names of the overload's type parameters unique.
 */
export function matchOverload(
  { params, result, rest }: Overload,
  types: readonly Type[],
  known: Substitution,
  suffix: string,
): OverloadMatch | undefined {
  if (rest ? types.length < params.length : types.length !== params.length) return undefined;
  const substitution: Substitution = new Map(known);
  for (let i = 0; i < types.length; i++) {
    const wanted = withFreshParams((params[i] ?? params.at(-1)) as Type, suffix);
    if (!assignable(wanted, types[i] as Type, substitution)) return undefined;
  }
  return { result: withFreshParams(result, suffix), substitution };
}

/**
 * Returns true if the type is known completely at compile time: no part of it is `dyn`, `null`, a type parameter or the type of an
 * erroneous expression.
 */
export function isConcrete(type: Type): boolean {
  switch (type.kind) {
    case 'dyn':
    case 'param':
    case 'error':
    case 'null':
      return false;
    case 'list':
      return isConcrete(type.element);
    case 'map':
      return isConcrete(type.key) && isConcrete(type.value);
    case 'opaque':
      return type.parameter === undefined || isConcrete(type.parameter);
    default:
      return true;
  }
}

const constantTypes: Partial<Record<ReturnType<typeof kindOf>, Type>> = {
  bool,
  int,
  uint,
  double,
  string,
  bytes,
  null: nullType,
  timestamp,
  duration,
  list: list(dyn),
  map: map(dyn, dyn),
  opaque: object('opaque', {}),
};
export const constantType = (value: Value): Type => constantTypes[kindOf(value)] ?? dyn;

/** Returns the key (or index) and element types of a comprehension range, or undefined if the type is not iterable. */
export function rangeOf(type: Type, indexed: boolean): readonly [key: Type, element: Type] | undefined {
  switch (type.kind) {
    case 'list':
      return [int, type.element];
    case 'map':
      return [type.key, indexed ? type.value : type.key];
    case 'dyn':
    case 'param':
    case 'error':
      return [dyn, dyn];
    default:
      return undefined;
  }
}
