import type { Expr } from '../syntax/ast.ts';
import type { Reference } from './checked-expression.ts';
import type { Environment } from './environment.ts';
import { typeOf, type Type } from '../types/type.ts';

interface Local {
  readonly name: string;
  readonly type: Type;
  readonly slot: number;
}

/** Resolves names (checker.Scopes of cel-go): variables of comprehensions and bindings, then variables of the environment, then types. */
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

  /** Returns `a.b.c` if the expression can be one qualified name: its first part is not a local variable. */
  qualified(expr: Expr): string | undefined {
    if (expr.kind === 'ident') return this.#locals.some(({ name }) => name === expr.name) ? undefined : expr.name;
    if (expr.kind !== 'select' || expr.test || expr.optional) return undefined;
    const operand = this.qualified(expr.operand);
    return operand === undefined ? undefined : `${operand}.${expr.field}`;
  }

  /** Checks an inner expression with additional local variables. */
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
