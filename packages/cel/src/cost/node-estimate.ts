import type { CheckedExpression } from '../checker/checked-expression.ts';
import type { Expr } from '../syntax/ast.ts';
import { optionalOf, type Type } from '../types/type.ts';
import { union, type Estimate } from './estimates.ts';

/** The sizes of the keys and values of a list or map. The key of a list is its index. */
export interface EntrySize {
  readonly container: 'list' | 'map';
  readonly key: Estimate;
  readonly value: Estimate;
}
/**
 * The path of a value from a variable, through names of fields, `@items`, `@values`, `@keys` and `@indices`. Values that are not reached from a
 * variable have no path, but their elements and fields have one: it starts at the element, as upstream.
 */
export type ValuePath = readonly string[];

/** The cost of a subexpression, and what is known of the size of its value. */
export interface NodeEstimate {
  readonly cost: Estimate;
  readonly size: Estimate | undefined;
  readonly entry: EntrySize | undefined;
  readonly path: ValuePath | undefined;
}
/** What is known of the value of a variable that a comprehension or `cel.bind` declares. */
export type LocalEstimate = Pick<NodeEstimate, 'size' | 'entry' | 'path'>;

/** Estimates subexpressions, and knows the values of variables. */
export interface NodeEstimator {
  readonly checked: CheckedExpression;
  estimate(expr: Expr): NodeEstimate;
  /** Declares what is known of the value of a local variable. */
  declare(slot: number | undefined, local: LocalEstimate): void;
  /** Returns the declared size of the value at a path; undefined if the schema declares none. */
  declaredSize(path: ValuePath | undefined): Estimate | undefined;
}

export function joinedEntry(a: EntrySize | undefined, b: EntrySize | undefined): EntrySize | undefined {
  if (a === undefined || b === undefined) return undefined;
  return { container: a.container, key: union(a.key, b.key), value: union(a.value, b.value) };
}

/** Returns true if values of the type have a constant size. */
export function isScalar(type: Type): boolean {
  switch (type.kind) {
    case 'bool':
    case 'int':
    case 'uint':
    case 'double':
    case 'timestamp':
    case 'duration':
    case 'type':
      return true;
    case 'opaque': {
      const inner = optionalOf(type);
      return inner !== undefined && isScalar(inner);
    }
    default:
      return false;
  }
}
