import type { Expr } from '../syntax/ast.ts';
import type { Reference } from './checked-expression.ts';
import type { Environment } from './environment.ts';
import { typeOf, type Type } from '../types/type.ts';

interface Local {
  readonly name: string;
  readonly type: Type;
  readonly slot: number;
}

/** Resolves a name (checker.Scopes of cel-go), in this order: variables of comprehensions and bindings, variables of the environment, types. */
export class Scope {
  readonly references = new Map<Expr, Reference>();
  readonly slots = new Map<Expr, readonly number[]>();
  slotCount = 0;
  readonly #env: Environment;
  readonly #locals: Local[] = [];

  constructor(env: Environment) {
    this.#env = env;
  }

  find(expr: Expr, name: string): Type | undefined {
    for (let i = this.#locals.length - 1; i >= 0; i--) {
      const local = this.#locals[i] as Local;
      if (local.name !== name) continue;
      this.references.set(expr, { to: 'local', slot: local.slot });
      return local.type;
    }
    const variable = this.#env.variable(name);
    if (variable !== undefined) {
      this.references.set(expr, { to: 'variable', name });
      return variable;
    }
    const type = this.#env.typeName(name);
    if (type === undefined) return undefined;
    this.references.set(expr, { to: 'type', name });
    return typeOf(type);
  }

  /**
   * Returns the qualified name that an expression such as `a.b.c` can be; undefined if `a` is a local variable or the expression is not a
   * chain of field selections.
   */
  qualified(expr: Expr): string | undefined {
    if (expr.kind === 'ident') return this.#locals.some(({ name }) => name === expr.name) ? undefined : expr.name;
    if (expr.kind !== 'select' || expr.test || expr.optional) return undefined;
    const operand = this.qualified(expr.operand);
    return operand === undefined ? undefined : `${operand}.${expr.field}`;
  }

  /** Runs `inner`, which checks a subexpression, while the given local variables are declared. Returns the type that `inner` returns. */
  scoped(expr: Expr, locals: readonly (readonly [name: string, type: Type])[], inner: () => Type): Type {
    const slots = locals.map(([name, type]) => {
      const slot = this.slotCount++;
      this.#locals.push({ name, type, slot });
      return slot;
    });
    this.slots.set(expr, slots);
    const type = inner();
    this.#locals.length -= locals.length;
    return type;
  }
}
