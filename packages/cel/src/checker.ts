import type { Bind, Call, Comprehension, Expr, ListExpr, Logic, MapExpr, OptionalMap, Select, StructExpr } from './ast.ts';
import type { Environment } from './environment.ts';
import type { Issue } from './issue.ts';
import { concrete, constantType, renamed } from './checker-types.ts';
import type { Fn, Overload } from './library.ts';
import {
  assignable,
  bool,
  dyn,
  error,
  formatType,
  int,
  list,
  map,
  optional,
  optionalOf,
  param,
  substitute,
  typeOf,
  type Substitution,
  type Type,
} from './type.ts';

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

const maxIssues = 100;

export function check(expr: Expr, env: Environment): Checked {
  const checker = new Checker(env);
  const type = checker.check(expr);
  return {
    expr,
    type: checker.resolved(type),
    issues: checker.issues,
    typeOf: (each) => checker.resolved(checker.types.get(each) ?? dyn),
    reference: (each) => checker.references.get(each),
    slots: (each) => checker.slots.get(each) ?? [],
    slotCount: checker.slotCount,
  };
}

interface Local {
  readonly name: string;
  readonly type: Type;
  readonly slot: number;
}

class Checker {
  readonly issues: Issue[] = [];
  readonly types = new Map<Expr, Type>();
  readonly references = new Map<Expr, Reference>();
  readonly slots = new Map<Expr, readonly number[]>();
  slotCount = 0;
  readonly #env: Environment;
  readonly #locals: Local[] = [];
  #substitution: Substitution = new Map();
  #fresh = 0;
  #exempt = 0;

  constructor(env: Environment) {
    this.#env = env;
  }

  resolved(type: Type): Type {
    return substitute(type, this.#substitution, dyn);
  }

  check(expr: Expr): Type {
    const type = this.#check(expr);
    this.types.set(expr, type);
    return type;
  }

  #check(expr: Expr): Type {
    switch (expr.kind) {
      case 'const':
        return constantType(expr.value);
      case 'ident':
        return this.#name(expr, expr.name) ?? this.#undeclared(expr.at, expr.name);
      case 'select':
        return this.#select(expr);
      case 'call':
        return this.#call(expr);
      case 'logic':
        return this.#logic(expr);
      case 'list':
        return this.#list(expr);
      case 'map':
        return this.#map(expr);
      case 'struct':
        return this.#struct(expr);
      case 'comprehension':
        return this.#comprehension(expr);
      case 'bind':
        return this.#bind(expr);
      case 'optional-map':
        return this.#optionalMap(expr);
    }
  }

  #issue(at: number, message: string): Type {
    if (this.issues.length < maxIssues) this.issues.push({ at, message });
    return error;
  }
  #undeclared(at: number, name: string): Type {
    return this.#issue(at, `undeclared reference to '${name}' (in container '')`);
  }

  #name(expr: Expr, name: string): Type | undefined {
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

  /** `a.b.c`, when that may be one name: its first part is no variable of the expression's own. */
  #qualified(expr: Expr): string | undefined {
    if (expr.kind === 'ident') return this.#locals.some(({ name }) => name === expr.name) ? undefined : expr.name;
    if (expr.kind !== 'select' || expr.test || expr.optional) return undefined;
    const operand = this.#qualified(expr.operand);
    return operand === undefined ? undefined : `${operand}.${expr.field}`;
  }

  #select(expr: Select): Type {
    if (!expr.test && !expr.optional) {
      const name = this.#qualified(expr);
      const whole = name === undefined ? undefined : this.#name(expr, name);
      if (whole !== undefined) return whole;
    }
    const operand = this.resolvedShallow(this.check(expr.operand));
    const inner = optionalOf(operand);
    const field = this.#field(expr, inner === undefined ? operand : this.resolvedShallow(inner));
    if (expr.test) return bool;
    return (inner !== undefined || expr.optional) && field !== error && optionalOf(field) === undefined ? optional(field) : field;
  }
  #field({ at, field }: Select, operand: Type): Type {
    switch (operand.kind) {
      case 'dyn':
      case 'param':
        return dyn;
      case 'error':
        return error;
      case 'map':
        return operand.value;
      case 'object':
        return operand.field(field) ?? this.#issue(at, `undefined field '${field}'`);
      default:
        return this.#issue(at, `type '${formatType(operand)}' does not support field selection`);
    }
  }

  /** A parameter's present meaning. */
  resolvedShallow(type: Type): Type {
    let found = type;
    while (found.kind === 'param') {
      const known = this.#substitution.get(found.name);
      if (known === undefined) return found;
      found = known;
    }
    return found;
  }

  #call(expr: Call): Type {
    const { at, fn, target, args } = expr;
    if (target === undefined) {
      const functions = this.#env.functions(fn);
      if (functions.length === 0) {
        for (const arg of args) this.check(arg);
        return this.#undeclared(at, fn);
      }
      return this.#resolve(expr, fn, functions, args, false, false);
    }
    const namespace = this.#qualified(target);
    if (namespace !== undefined) {
      const functions = this.#env.functions(`${namespace}.${fn}`);
      if (functions.length > 0) return this.#resolve(expr, `${namespace}.${fn}`, functions, args, false, true);
    }
    const functions = this.#env.functions(fn);
    if (functions.length === 0) {
      for (const arg of [target, ...args]) this.check(arg);
      return this.#undeclared(at, fn);
    }
    return this.#resolve(expr, fn, functions, [target, ...args], true, false);
  }

  #resolve(expr: Call, name: string, functions: readonly Fn[], args: readonly Expr[], member: boolean, namespaced: boolean): Type {
    // what is formatted may be a list of anything
    if (name === 'format') this.#exempt++;
    const types = args.map((arg) => this.check(arg));
    if (name === 'format') this.#exempt--;
    if (types.includes(error)) return error;
    const matching: Fn[] = [];
    let result: Type | undefined;
    for (const each of functions) {
      let matches = false;
      for (const overload of each.overloads) {
        if (overload.member !== member) continue;
        const found = this.#apply(overload, types);
        if (found === undefined) continue;
        matches = true;
        if (result === undefined) result = found;
        else if (formatType(this.resolved(result)) !== formatType(this.resolved(found))) result = dyn;
      }
      if (matches) matching.push(each);
    }
    if (result === undefined) {
      const [first, ...rest] = types.map((type) => formatType(substitute(type, this.#substitution, dyn)));
      const applied = member ? `${first}.(${rest.join(', ')})` : `(${[first, ...rest].filter((type) => type !== undefined).join(', ')})`;
      return this.#issue(expr.at, `found no matching overload for '${name}' applied to '${applied}'`);
    }
    const exact = types.every((type) => concrete(this.resolved(type)));
    this.references.set(expr, { to: 'functions', functions: matching, namespaced, exact });
    return result;
  }

  #apply({ params, result, rest }: Overload, types: readonly Type[]): Type | undefined {
    if (rest ? types.length < params.length : types.length !== params.length) return undefined;
    const trial: Substitution = new Map(this.#substitution);
    const suffix = `%${this.#fresh++}`;
    for (let i = 0; i < types.length; i++) {
      const wanted = renamed((params[i] ?? params.at(-1)) as Type, suffix);
      if (!assignable(wanted, types[i] as Type, trial)) return undefined;
    }
    this.#substitution = trial;
    return renamed(result, suffix);
  }

  #logic({ at, op, terms }: Logic): Type {
    const types = terms.map((term) => this.check(term));
    const wrong = types.some((type) => !assignable(bool, type, this.#substitution));
    if (!wrong) return bool;
    const shown = types.map((type) => formatType(this.resolved(type))).join(', ');
    return this.#issue(at, `found no matching overload for '${op}' applied to '(${shown})'`);
  }

  #join(at: number, common: Type | undefined, next: Type): Type {
    if (common === undefined || common === error) return next;
    if (assignable(common, next, this.#substitution)) return next.kind === 'dyn' || common.kind === 'null' ? next : common;
    if (!this.#env.homogeneous || this.#exempt > 0) return dyn;
    return this.#issue(at, `expected type '${formatType(this.resolved(common))}' but found '${formatType(this.resolved(next))}'`);
  }

  #list({ elements, optional: optionals }: ListExpr): Type {
    let common: Type | undefined;
    elements.forEach((element, i) => {
      const type = this.check(element);
      common = this.#join(element.at, common, optionals.has(i) ? this.#unwrapped(element.at, type) : type);
    });
    return list(common ?? param(`E%${this.#fresh++}`));
  }
  #unwrapped(at: number, type: Type): Type {
    const shallow = this.resolvedShallow(type);
    if (shallow.kind === 'dyn' || shallow.kind === 'error') return shallow;
    return optionalOf(shallow) ?? this.#issue(at, `expected type 'optional_type(dyn)' but found '${formatType(this.resolved(type))}'`);
  }

  #map({ entries }: MapExpr): Type {
    let [key, value]: [Type | undefined, Type | undefined] = [undefined, undefined];
    for (const entry of entries) {
      key = this.#join(entry.key.at, key, this.check(entry.key));
      const type = this.check(entry.value);
      value = this.#join(entry.value.at, value, entry.optional ? this.#unwrapped(entry.value.at, type) : type);
    }
    const fresh = this.#fresh++;
    return map(key ?? param(`K%${fresh}`), value ?? param(`V%${fresh}`));
  }

  #struct({ at, name, fields }: StructExpr): Type {
    const type = this.#env.struct(name);
    for (const { at: place, name: field, value, optional: maybe } of fields) {
      const checked = this.check(value);
      const given = maybe ? this.#unwrapped(value.at, checked) : checked;
      if (type === undefined) continue;
      const wanted = type.field(field);
      if (wanted === undefined) this.#issue(place, `undefined field '${field}'`);
      else if (!assignable(wanted, given, this.#substitution))
        this.#issue(
          place,
          `expected type of field '${field}' is '${formatType(wanted)}' but provided type is '${formatType(this.resolved(given))}'`,
        );
    }
    return type ?? this.#undeclared(at, name);
  }

  #scoped(expr: Expr, locals: readonly (readonly [name: string, type: Type])[], inner: () => Type): Type {
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

  #comprehension(expr: Comprehension): Type {
    const { macro, first, second, filter, body, range } = expr;
    const [key, element] = this.#ranged(range, second !== undefined);
    const locals = second === undefined ? [[first, element] as const] : [[first, key] as const, [second, element] as const];
    const over = this.resolvedShallow(this.types.get(range) ?? dyn);
    return this.#scoped(expr, locals, () => {
      if (filter !== undefined) this.#predicate(filter, '_?_:_');
      switch (macro) {
        case 'all':
        case 'exists':
        case 'existsOne':
          this.#predicate(body, macro === 'all' ? '_&&_' : macro === 'exists' ? '_||_' : '_?_:_');
          return bool;
        case 'filter':
          this.#predicate(body, '_?_:_');
          return list(element);
        case 'map':
        case 'transformList':
          return list(this.check(body));
        case 'transformMap':
          return map(over.kind === 'list' ? int : key, this.check(body));
        case 'transformMapEntry': {
          const type = this.resolvedShallow(this.check(body));
          if (type.kind === 'map' || type.kind === 'dyn' || type.kind === 'error') return type;
          return this.#issue(body.at, `expected type 'map(dyn, dyn)' but found '${formatType(this.resolved(type))}'`);
        }
      }
    });
  }
  #ranged(range: Expr, indexed: boolean): [Type, Type] {
    const type = this.resolvedShallow(this.check(range));
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
        this.#issue(
          range.at,
          `expression of type '${formatType(type)}' cannot be range of a comprehension (must be list, map, or dynamic)`,
        );
        return [error, error];
    }
  }
  #predicate(expr: Expr, op: string): void {
    const type = this.check(expr);
    if (assignable(bool, type, this.#substitution)) return;
    const shown = formatType(this.resolved(type));
    this.#issue(
      expr.at,
      `found no matching overload for '${op}' applied to '(${op === '_?_:_' ? `${shown}, dyn, dyn` : `bool, ${shown}`})'`,
    );
  }

  #bind(expr: Bind): Type {
    const init = this.check(expr.init);
    return this.#scoped(expr, [[expr.name, init]], () => this.check(expr.body));
  }

  #optionalMap(expr: OptionalMap): Type {
    const target = this.resolvedShallow(this.check(expr.target));
    const inner = target.kind === 'dyn' || target.kind === 'error' ? dyn : optionalOf(target);
    if (inner === undefined)
      return this.#issue(
        expr.at,
        `found no matching overload for '${expr.flat ? 'optFlatMap' : 'optMap'}' applied to '${formatType(target)}.()'`,
      );
    return this.#scoped(expr, [[expr.name, inner]], () => {
      const body = this.check(expr.body);
      return expr.flat ? (optionalOf(body) === undefined && body !== dyn ? this.#unwrapped(expr.body.at, body) : body) : optional(body);
    });
  }
}
