import type { CheckedExpression } from '../checker/checked-expression.ts';
import { matchOverload } from '../checker/overloads.ts';
import type { FunctionDeclaration, Overload } from '../libraries/library.ts';
import type { Call, Expr, ListExpr, MapExpr, OptionalMap, Select } from '../syntax/ast.ts';
import type { DeclaredSize } from '../types/declared-size.ts';
import { optionalOf, type Type } from '../types/type.ts';
import { sizeOf } from '../values/value.ts';
import { estimateCall, unionOfCalls } from './call-estimates.ts';
import type { Operand } from './call-rule.ts';
import { estimateComprehension } from './comprehension-estimates.ts';
import {
  add,
  fixed,
  listCreationCost,
  mapCreationCost,
  range,
  structCreationCost,
  union,
  unknownEstimate,
  type Estimate,
} from './estimates.ts';
import { isScalar, joinedEntry, type LocalEstimate, type NodeEstimate, type NodeEstimator, type ValuePath } from './node-estimate.ts';

const selectionCost = fixed(1);

/**
 * Estimates the cost of an expression from the sizes of its values, with the rules of cel-go's coster and Kubernetes' CostEstimator. CRDs are
 * accepted by this estimate, so it is equal to upstream's, including where upstream's estimate is imprecise.
 */
export class Estimator implements NodeEstimator {
  readonly checked: CheckedExpression;
  readonly #root: DeclaredSize | undefined;
  readonly #locals = new Map<number, LocalEstimate>();

  constructor(checked: CheckedExpression, root: DeclaredSize | undefined) {
    this.checked = checked;
    this.#root = root;
  }

  estimate(expr: Expr): NodeEstimate {
    switch (expr.kind) {
      case 'const':
        return { cost: fixed(0), size: fixed(literalSize(expr.value)), entry: undefined, path: undefined };
      case 'ident':
        return this.#name(expr) ?? { cost: selectionCost, ...this.sized(expr, undefined) };
      case 'select':
        return this.#select(expr);
      case 'call':
        return this.#call(expr);
      case 'logic': {
        const [first = fixed(0), ...rest] = expr.terms.map((term) => this.estimate(term).cost);
        return { cost: add(first, ...rest.map(({ max }) => range(0, max))), ...this.sized(expr, undefined) };
      }
      case 'list':
        return this.#list(expr);
      case 'map':
        return this.#map(expr);
      case 'struct':
        return {
          cost: add(fixed(structCreationCost), ...expr.fields.map(({ value }) => this.estimate(value).cost)),
          ...this.sized(expr, undefined),
        };
      case 'comprehension':
        return estimateComprehension(this, expr);
      case 'bind': {
        const init = this.estimate(expr.init);
        this.declare(this.checked.slots(expr)[0], init);
        const body = this.estimate(expr.body);
        // cel.bind is a comprehension over an empty list
        return { ...body, cost: add(fixed(listCreationCost), init.cost, body.cost), path: undefined };
      }
      case 'optional-map':
        return this.#optionalMap(expr);
    }
  }

  declare(slot: number | undefined, local: LocalEstimate): void {
    if (slot !== undefined) this.#locals.set(slot, local);
  }

  declaredSize(path: ValuePath | undefined): Estimate | undefined {
    if (path === undefined || path.length === 0) return undefined;
    let declared = this.#root;
    for (const name of path.slice(1)) {
      if (name === '@items' || name === '@values') declared = declared?.element;
      else if (name === '@keys') declared = declared?.key;
      else declared = declared?.field?.(name);
    }
    return declared && range(0, declared.max);
  }

  /** Returns the size of a value that has no computed size: its declared size, or that of its type. */
  sized(expr: Expr, path: ValuePath | undefined): LocalEstimate {
    const size = this.declaredSize(path) ?? (isScalar(this.checked.typeOf(expr)) ? fixed(1) : undefined);
    return { size, entry: undefined, path };
  }

  #name(expr: Expr): NodeEstimate | undefined {
    const reference = this.checked.reference(expr);
    if (reference?.to === 'variable') return { cost: selectionCost, ...this.sized(expr, [reference.name]) };
    if (reference?.to === 'local') {
      const local = this.#locals.get(reference.slot);
      const { size, path } = this.sized(expr, local?.path);
      return { cost: selectionCost, size: size ?? local?.size, entry: local?.entry, path };
    }
    return reference?.to === 'type' ? { cost: selectionCost, ...this.sized(expr, undefined) } : undefined;
  }

  #select(expr: Select): NodeEstimate {
    const named = expr.test ? undefined : this.#name(expr);
    if (named !== undefined) return named;
    const operand = this.estimate(expr.operand);
    if (expr.test) return { cost: operand.cost, ...this.sized(expr, undefined) };
    // `operand.?field` is a call upstream
    if (expr.optional) return { cost: add(operand.cost, fixed(1)), ...this.sized(expr, undefined) };
    const { kind } = this.checked.typeOf(expr.operand);
    const isSelection = kind === 'map' || kind === 'object' || kind === 'param';
    return {
      cost: isSelection ? add(operand.cost, selectionCost) : operand.cost,
      ...this.sized(expr, [...(operand.path ?? []), expr.field]),
    };
  }

  #list(expr: ListExpr): NodeEstimate {
    const elements = expr.elements.map((element) => this.estimate(element));
    return {
      cost: add(fixed(listCreationCost), ...elements.map(({ cost }) => cost)),
      size: fixed(elements.length),
      entry: { container: 'list', key: fixed(1), value: joinedSize(elements) },
      path: undefined,
    };
  }

  #map(expr: MapExpr): NodeEstimate {
    const keys = expr.entries.map(({ key }) => this.estimate(key));
    const values = expr.entries.map(({ value }) => this.estimate(value));
    return {
      cost: add(fixed(mapCreationCost), ...[...keys, ...values].map(({ cost }) => cost)),
      size: fixed(keys.length),
      entry: { container: 'map', key: joinedSize(keys), value: joinedSize(values) },
      path: undefined,
    };
  }

  /** `target.optMap(x, body)` is `target.hasValue() ? optional.of(cel.bind(x, target.value(), body)) : optional.none()`. */
  #optionalMap(expr: OptionalMap): NodeEstimate {
    const target = this.estimate(expr.target);
    const value = add(target.cost, fixed(1));
    const type = optionalOf(this.checked.typeOf(expr.target));
    this.declare(this.checked.slots(expr)[0], {
      size: type !== undefined && isScalar(type) ? fixed(1) : undefined,
      entry: undefined,
      path: undefined,
    });
    const bound = add(fixed(listCreationCost), value, this.estimate(expr.body).cost);
    const present = expr.flat ? bound : add(bound, fixed(1));
    return { cost: add(value, union(present, fixed(1))), ...this.sized(expr, undefined) };
  }

  #call(expr: Call): NodeEstimate {
    const { target, args } = expr;
    const reference = this.checked.reference(expr);
    if (reference?.to !== 'functions') return { cost: fixed(0), ...this.sized(expr, undefined) };
    const { functions, namespaced } = reference;
    const receiver = target === undefined || namespaced ? undefined : this.estimate(target);
    const values = args.map((arg) => this.estimate(arg));
    const operandCost = add(...(receiver === undefined ? [] : [receiver.cost]), ...values.map(({ cost }) => cost));
    const name = functions[0]?.name ?? expr.fn;
    if (name === 'dyn' && values[0] !== undefined) return { ...values[0], cost: add(fixed(1), values[0].cost), path: undefined };
    if (name === '_?_:_') return this.#conditional(values);
    if (name === '_[_]') return { cost: add(operandCost, fixed(1)), ...this.#element(expr, values[0]) };
    const operands = {
      target: receiver && target && this.#operand(target, receiver),
      args: args.map((arg, i) => this.#operand(arg, values[i] as NodeEstimate)),
    };
    const types = [...(operands.target === undefined ? [] : [operands.target.type]), ...operands.args.map(({ type }) => type)];
    const calls = overloadsOf(functions, types).map((overload) => estimateCall(name, { ...operands, overload }));
    const call = calls.length === 0 ? { cost: fixed(1) } : unionOfCalls(calls);
    const typed = this.sized(expr, undefined);
    return {
      cost: add(operandCost, call.cost),
      size: call.size ?? typed.size,
      entry: name === '_+_' ? joinedEntry(values[0]?.entry, values[1]?.entry) : undefined,
      path: undefined,
    };
  }

  #operand(expr: Expr, { size, path }: NodeEstimate): Operand {
    return {
      expr,
      type: this.checked.typeOf(expr),
      size,
      elementSize: () => (path === undefined ? undefined : this.declaredSize([...path, '@items'])),
    };
  }

  #conditional([condition, then, otherwise]: readonly NodeEstimate[]): NodeEstimate {
    return {
      cost: add(condition?.cost ?? fixed(0), union(then?.cost ?? fixed(0), otherwise?.cost ?? fixed(0))),
      size: union(then?.size ?? unknownEstimate, otherwise?.size ?? unknownEstimate),
      entry: joinedEntry(then?.entry, otherwise?.entry),
      path: undefined,
    };
  }

  #element(expr: Call, container: NodeEstimate | undefined): LocalEstimate {
    const [operand] = expr.args;
    const kind = operand && this.checked.typeOf(operand).kind;
    if (kind === 'opaque') return this.sized(expr, undefined);
    const { size, path } = this.sized(expr, [...(container?.path ?? []), kind === 'list' ? '@items' : '@values']);
    return { size: container?.entry?.value ?? size, entry: undefined, path };
  }
}

/** Returns the overloads that accept arguments of these types. */
function overloadsOf(functions: readonly FunctionDeclaration[], types: readonly Type[]): readonly Overload[] {
  return functions.flatMap(({ overloads }) => overloads.filter((overload) => matchOverload(overload, types, new Map(), '') !== undefined));
}

function joinedSize(nodes: readonly NodeEstimate[]): Estimate {
  const sizes = nodes.map(({ size }) => size ?? unknownEstimate);
  return sizes.length === 0 ? fixed(0) : sizes.reduce(union);
}

/** Returns the size of a literal. The size of a string is its number of code points. */
const literalSize = (value: Parameters<typeof sizeOf>[0]): number => (typeof value === 'string' ? [...value].length : sizeOf(value));
