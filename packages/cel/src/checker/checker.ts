import type { Bind, Call, Comprehension, Expr, ListExpr, Logic, MapExpr, OptionalMap, Select, StructExpr } from '../syntax/ast.ts';
import type { CheckedExpression } from './checked-expression.ts';
import type { Environment } from './environment.ts';
import type { Issue } from '../syntax/issue.ts';
import { Scope } from './scope.ts';
import { matchOverload, isConcrete, constantType, rangeOf } from './overloads.ts';
import type { FunctionDeclaration } from '../libraries/library.ts';
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
  type Substitution,
  type Type,
} from '../types/type.ts';

const maxIssues = 100;

/** A type checker that infers the type of an expression and of each subexpression, and resolves all names. */
export class Checker {
  readonly issues: Issue[] = [];
  readonly types = new Map<Expr, Type>();
  readonly names: Scope;
  readonly #env: Environment;
  #substitution: Substitution = new Map();
  #fresh = 0;
  #exempt = 0;

  constructor(env: Environment) {
    this.#env = env;
    this.names = new Scope(env);
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
        return this.names.find(expr, expr.name) ?? this.#undeclared(expr.at, expr.name);
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

  #select(expr: Select): Type {
    if (!expr.test && !expr.optional) {
      const name = this.names.qualified(expr);
      const whole = name === undefined ? undefined : this.names.find(expr, name);
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

  /** Returns the type that a type parameter is bound to. Does not resolve the parameters inside of a list or map type. */
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
      return this.#resolve(expr, fn, { functions, args, member: false, namespaced: false });
    }
    const namespace = this.names.qualified(target);
    if (namespace !== undefined) {
      const functions = this.#env.functions(`${namespace}.${fn}`);
      if (functions.length > 0) return this.#resolve(expr, `${namespace}.${fn}`, { functions, args, member: false, namespaced: true });
    }
    const functions = this.#env.functions(fn);
    if (functions.length === 0) {
      for (const arg of [target, ...args]) this.check(arg);
      return this.#undeclared(at, fn);
    }
    return this.#resolve(expr, fn, { functions, args: [target, ...args], member: true, namespaced: false });
  }

  #resolve(
    expr: Call,
    name: string,
    {
      functions,
      args,
      member,
      namespaced,
    }: {
      readonly functions: readonly FunctionDeclaration[];
      readonly args: readonly Expr[];
      readonly member: boolean;
      readonly namespaced: boolean;
    },
  ): Type {
    // the arguments of format may be a list of mixed types
    if (name === 'format') this.#exempt++;
    const types = args.map((arg) => this.check(arg));
    if (name === 'format') this.#exempt--;
    if (types.includes(error)) return error;
    const matching: FunctionDeclaration[] = [];
    let result: Type | undefined;
    for (const each of functions) {
      let matches = false;
      for (const overload of each.overloads) {
        if (overload.member !== member) continue;
        const found = matchOverload(overload, types, this.#substitution, `%${this.#fresh++}`);
        if (found === undefined) continue;
        matches = true;
        this.#substitution = found.substitution;
        if (result === undefined) result = found.result;
        else if (formatType(this.resolved(result)) !== formatType(this.resolved(found.result))) result = dyn;
      }
      if (matches) matching.push(each);
    }
    if (result === undefined) {
      const [first, ...rest] = types.map((type) => formatType(substitute(type, this.#substitution, dyn)));
      const call = member ? `${first}.(${rest.join(', ')})` : `(${[first, ...rest].filter((type) => type !== undefined).join(', ')})`;
      return this.#issue(expr.at, `found no matching overload for '${name}' applied to '${call}'`);
    }
    const exact = types.every((type) => isConcrete(this.resolved(type)));
    this.names.references.set(expr, { to: 'functions', functions: matching, namespaced, exact });
    return result;
  }

  #logic({ at, op, terms }: Logic): Type {
    const types = terms.map((term) => this.check(term));
    const wrong = types.some((type) => !assignable(bool, type, this.#substitution));
    if (!wrong) return bool;
    const typeTexts = types.map((type) => formatType(this.resolved(type))).join(', ');
    return this.#issue(at, `found no matching overload for '${op}' applied to '(${typeTexts})'`);
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
      const valueType = maybe ? this.#unwrapped(value.at, checked) : checked;
      if (type === undefined) continue;
      const wanted = type.field(field);
      if (wanted === undefined) this.#issue(place, `undefined field '${field}'`);
      else if (!assignable(wanted, valueType, this.#substitution))
        this.#issue(
          place,
          `expected type of field '${field}' is '${formatType(wanted)}' but provided type is '${formatType(this.resolved(valueType))}'`,
        );
    }
    return type ?? this.#undeclared(at, name);
  }

  #comprehension(expr: Comprehension): Type {
    const { macro, first, second, filter, body, range } = expr;
    const ranged = this.resolvedShallow(this.check(range));
    const [key, element] = rangeOf(ranged, second !== undefined) ?? [this.#noRange(range, ranged), error];
    const locals = second === undefined ? [[first, element] as const] : [[first, key] as const, [second, element] as const];
    const over = this.resolvedShallow(this.types.get(range) ?? dyn);
    return this.names.scoped(expr, locals, () => {
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
  #noRange({ at }: Expr, type: Type): Type {
    return this.#issue(at, `expression of type '${formatType(type)}' cannot be range of a comprehension (must be list, map, or dynamic)`);
  }
  #predicate(expr: Expr, op: string): void {
    const type = this.check(expr);
    if (assignable(bool, type, this.#substitution)) return;
    const typeText = formatType(this.resolved(type));
    this.#issue(
      expr.at,
      `found no matching overload for '${op}' applied to '(${op === '_?_:_' ? `${typeText}, dyn, dyn` : `bool, ${typeText}`})'`,
    );
  }

  #bind(expr: Bind): Type {
    const init = this.check(expr.init);
    return this.names.scoped(expr, [[expr.name, init]], () => this.check(expr.body));
  }

  #optionalMap(expr: OptionalMap): Type {
    const target = this.resolvedShallow(this.check(expr.target));
    const inner = target.kind === 'dyn' || target.kind === 'error' ? dyn : optionalOf(target);
    if (inner === undefined)
      return this.#issue(
        expr.at,
        `found no matching overload for '${expr.flat ? 'optFlatMap' : 'optMap'}' applied to '${formatType(target)}.()'`,
      );
    return this.names.scoped(expr, [[expr.name, inner]], () => {
      const body = this.check(expr.body);
      return expr.flat ? (optionalOf(body) === undefined && body !== dyn ? this.#unwrapped(expr.body.at, body) : body) : optional(body);
    });
  }
}

/** Checks an expression. Type errors and unresolved names are returned as `issues`, not thrown. */
export function check(expr: Expr, env: Environment): CheckedExpression {
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
