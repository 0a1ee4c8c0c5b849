import type { Expr } from './ast.ts';
import { Checker } from './checker.ts';
import type { Environment } from './environment.ts';
import type { Issue } from './issue.ts';
import type { Fn } from './library.ts';
import { dyn, type Type } from './type.ts';

/** What a name in an expression turned out to be. */
export type Reference =
  | { readonly to: 'variable'; readonly name: string }
  | { readonly to: 'local'; readonly slot: number }
  | { readonly to: 'type'; readonly name: string }
  /** `namespaced`: the target of the call is a part of the function's name. */
  | { readonly to: 'functions'; readonly functions: readonly Fn[]; readonly namespaced: boolean; readonly exact: boolean };

export interface Checked {
  readonly expr: Expr;
  readonly type: Type;
  readonly issues: readonly Issue[];
  typeOf(expr: Expr): Type;
  reference(expr: Expr): Reference | undefined;
  /** The slots of the variables that a comprehension or a binding brings. */
  slots(expr: Expr): readonly number[];
  readonly slotCount: number;
}

/** Checks an expression. Its faults are issues, not errors. */
export function check(expr: Expr, env: Environment): Checked {
  const checker = new Checker(env);
  const type = checker.check(expr);
  return {
    expr,
    type: checker.resolved(type),
    issues: checker.issues,
    typeOf: (each) => checker.resolved(checker.types.get(each) ?? dyn),
    reference: (each) => checker.names.references.get(each),
    slots: (each) => checker.names.slots.get(each) ?? [],
    slotCount: checker.names.slotCount,
  };
}
