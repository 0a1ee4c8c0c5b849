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
  object,
  optional,
  param,
  string,
  timestamp,
  typeOf,
  uint,
  type Type,
} from './type.ts';
import { kindOf, type Value } from './value.ts';

/** A declared type with parameters of its own: each use of a function finds out for itself what they stand for. */
export function renamed(type: Type, suffix: string): Type {
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
