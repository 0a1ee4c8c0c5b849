import type { Overload } from './library.ts';
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
} from './type.ts';
import { kindOf, type Value } from './value.ts';

/** A declared type with parameters of its own: each use of a function finds out for itself what they stand for. */
function renamed(type: Type, suffix: string): Type {
  switch (type.kind) {
    case 'param':
      return param(type.name + suffix);
    case 'list':
      return list(renamed(type.element, suffix));
    case 'map':
      return map(renamed(type.key, suffix), renamed(type.value, suffix));
    case 'opaque':
      return type.parameter === undefined ? type : optional(renamed(type.parameter, suffix));
    case 'type':
      return type.of === undefined ? type : typeOf(renamed(type.of, suffix));
    default:
      return type;
  }
}

export interface Applied {
  readonly result: Type;
  /** What is known of parameters of types by now. */
  readonly substitution: Substitution;
}

/** What an overload makes of arguments of these types; undefined when it does not take them. `suffix` sets its parameters apart. */
export function applied(
  { params, result, rest }: Overload,
  types: readonly Type[],
  known: Substitution,
  suffix: string,
): Applied | undefined {
  if (rest ? types.length < params.length : types.length !== params.length) return undefined;
  const substitution: Substitution = new Map(known);
  for (let i = 0; i < types.length; i++) {
    const wanted = renamed((params[i] ?? params.at(-1)) as Type, suffix);
    if (!assignable(wanted, types[i] as Type, substitution)) return undefined;
  }
  return { result: renamed(result, suffix), substitution };
}

/** Nothing in it is left to run time. */
export function concrete(type: Type): boolean {
  switch (type.kind) {
    case 'dyn':
    case 'param':
    case 'error':
    case 'null':
      return false;
    case 'list':
      return concrete(type.element);
    case 'map':
      return concrete(type.key) && concrete(type.value);
    case 'opaque':
      return type.parameter === undefined || concrete(type.parameter);
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

/** What a fold over a value of this type brings, its keys (or places) and its elements; undefined: nothing to fold over. */
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
