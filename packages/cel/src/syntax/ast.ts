import type { Value } from '../values/value.ts';

export type Macro = 'all' | 'exists' | 'existsOne' | 'map' | 'filter' | 'transformList' | 'transformMap' | 'transformMapEntry';

export interface Const {
  readonly kind: 'const';
  readonly at: number;
  readonly value: Value;
}
export interface Ident {
  readonly kind: 'ident';
  readonly at: number;
  readonly name: string;
}
export interface Select {
  readonly kind: 'select';
  readonly at: number;
  readonly operand: Expr;
  readonly field: string;
  /** True for the macro `has(operand.field)`. */
  readonly test: boolean;
  /** True for an optional field selection, `operand.?field`. */
  readonly optional: boolean;
}
export interface Call {
  readonly kind: 'call';
  readonly at: number;
  readonly fn: string;
  readonly target?: Expr;
  readonly args: readonly Expr[];
}
/** A chain of `&&` or `||`, such as `a && b && c`, as one node. */
export interface Logic {
  readonly kind: 'logic';
  readonly at: number;
  readonly op: '_&&_' | '_||_';
  readonly terms: readonly Expr[];
}
export interface ListExpr {
  readonly kind: 'list';
  readonly at: number;
  readonly elements: readonly Expr[];
  /** The indexes of elements marked as optional, `?element`. */
  readonly optional: ReadonlySet<number>;
}
export interface Entry {
  readonly at: number;
  readonly key: Expr;
  readonly value: Expr;
  readonly optional: boolean;
}
export interface MapExpr {
  readonly kind: 'map';
  readonly at: number;
  readonly entries: readonly Entry[];
}
export interface StructExpr {
  readonly kind: 'struct';
  readonly at: number;
  readonly name: string;
  readonly fields: readonly { readonly at: number; readonly name: string; readonly value: Expr; readonly optional: boolean }[];
}
export interface Comprehension {
  readonly kind: 'comprehension';
  readonly at: number;
  readonly macro: Macro;
  readonly range: Expr;
  readonly first: string;
  /** The second variable of macros with two variables. */
  readonly second?: string;
  readonly filter?: Expr;
  /** The predicate of `all`, `exists`, `existsOne` and `filter`; otherwise the result for each element. */
  readonly body: Expr;
}
export interface Bind {
  readonly kind: 'bind';
  readonly at: number;
  readonly name: string;
  readonly init: Expr;
  readonly body: Expr;
}
/** The macros `optMap` and `optFlatMap`. */
export interface OptionalMap {
  readonly kind: 'optional-map';
  readonly at: number;
  readonly target: Expr;
  readonly name: string;
  readonly body: Expr;
  readonly flat: boolean;
}
export type Expr = Const | Ident | Select | Call | Logic | ListExpr | MapExpr | StructExpr | Comprehension | Bind | OptionalMap;
