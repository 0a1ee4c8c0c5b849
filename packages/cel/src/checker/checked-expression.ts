import type { Expr } from '../syntax/ast.ts';
import type { Issue } from '../syntax/issue.ts';
import type { FunctionDeclaration } from '../libraries/library.ts';
import type { Type } from '../types/type.ts';

/** The declaration that a name in an expression refers to. */
export type Reference =
  | { readonly to: 'variable'; readonly name: string }
  | { readonly to: 'local'; readonly slot: number }
  | { readonly to: 'type'; readonly name: string }
  /** `namespaced`: the target of the call is part of the function's name. */
  | { readonly to: 'functions'; readonly functions: readonly FunctionDeclaration[]; readonly namespaced: boolean; readonly exact: boolean };

export interface CheckedExpression {
  readonly expr: Expr;
  readonly type: Type;
  readonly issues: readonly Issue[];
  typeOf(expr: Expr): Type;
  reference(expr: Expr): Reference | undefined;
  /** Returns the indexes in `Frame.slots` of the variables that a comprehension, `cel.bind` or an optional macro declares. */
  slots(expr: Expr): readonly number[];
  readonly slotCount: number;
}
