import type { Call, Comprehension, Expr } from './syntax/ast.ts';
import type { CheckedExpression } from './checker/checked-expression.ts';
import type { FunctionDeclaration } from './libraries/library.ts';
import type { Program } from './program.ts';
import { one, unknownSizes, type Sizes } from './types/sizes.ts';
import type { Type } from './types/type.ts';
import { sizeOf } from './values/value.ts';

export interface CostEstimate {
  readonly min: number;
  readonly max: number;
}

/** The maximum estimated cost of one rule of a CustomResourceDefinition, and of all rules of one definition. */
export const maxRuleCost = 10_000_000;
export const maxDefinitionCost = 100_000_000;
/** The maximum cost of one evaluation, and of all evaluations for one object or one admission request. */
export const perCallLimit = 1_000_000;
export const runtimeBudget = 10_000_000;
export const matchConditionsBudget = 2_500_000;

/**
 * Estimates the minimum and maximum cost of an evaluation from the maximum sizes of the variables, as Kubernetes does for the rules of
 * CustomResourceDefinitions (checker.CostEstimate of cel-go). A variable without an entry in `sizes` can be as large as a request body.
 */
export function estimateCost(program: Program, sizes: Readonly<Record<string, Sizes>> = {}): CostEstimate {
  return new Estimator(program.checked, sizes).of(program.checked.expr).cost;
}

interface NodeEstimate {
  readonly cost: CostEstimate;
  readonly sizes: Sizes;
}
const cost = (min: number, max = min): CostEstimate => ({ min, max });
const plus = (...parts: readonly CostEstimate[]): CostEstimate =>
  parts.reduce((sum, part) => ({ min: bounded(sum.min + part.min), max: bounded(sum.max + part.max) }), cost(0));
const bounded = (value: number) => Math.min(value, Number.MAX_SAFE_INTEGER);
const times = (a: CostEstimate, { min, max }: Sizes): CostEstimate => cost(bounded(a.min * min), bounded(a.max * max));
const either = (a: Sizes, b: Sizes): Sizes => ({
  min: Math.min(a.min, b.min),
  max: Math.max(a.max, b.max),
  element: a.element && b.element ? either(a.element, b.element) : (a.element ?? b.element),
  key: a.key && b.key ? either(a.key, b.key) : (a.key ?? b.key),
  field: a.field ?? b.field,
});

class Estimator {
  readonly #checked: CheckedExpression;
  readonly #variables: Readonly<Record<string, Sizes>>;
  readonly #locals = new Map<number, Sizes>();

  constructor(checked: CheckedExpression, variables: Readonly<Record<string, Sizes>>) {
    this.#checked = checked;
    this.#variables = variables;
  }

  of(expr: Expr): NodeEstimate {
    switch (expr.kind) {
      case 'const': {
        const size = sizeOf(expr.value);
        return { cost: cost(0), sizes: { min: size, max: size } };
      }
      case 'ident':
        return this.#name(expr) ?? { cost: cost(1), sizes: unknownSizes };
      case 'select': {
        const named = this.#name(expr);
        if (named !== undefined) return named;
        const operand = this.of(expr.operand);
        const sizes = operand.sizes.field?.(expr.field) ?? operand.sizes.element ?? this.#default(expr);
        return { cost: expr.test ? operand.cost : plus(operand.cost, cost(1)), sizes: expr.test ? one : sizes };
      }
      case 'call':
        return this.#call(expr);
      case 'logic': {
        const [first, ...rest] = expr.terms.map((term) => this.of(term).cost);
        return { cost: plus(first ?? cost(0), ...rest.map(({ max }) => cost(0, max))), sizes: one };
      }
      case 'list': {
        const elements = expr.elements.map((element) => this.of(element));
        const element = elements
          .map(({ sizes }) => sizes)
          .reduce<Sizes | undefined>((a, b) => (a === undefined ? b : either(a, b)), undefined);
        return {
          cost: plus(cost(10), ...elements.map((each) => each.cost)),
          sizes: { min: elements.length - expr.optional.size, max: elements.length, element },
        };
      }
      case 'map': {
        const parts = expr.entries.map(({ key, value }) => [this.of(key), this.of(value)] as const);
        const join = (which: 0 | 1) =>
          parts.map((part) => part[which].sizes).reduce<Sizes | undefined>((a, b) => (a === undefined ? b : either(a, b)), undefined);
        return {
          cost: plus(cost(30), ...parts.flatMap(([key, value]) => [key.cost, value.cost])),
          sizes: {
            min: expr.entries.filter((entry) => !entry.optional).length,
            max: parts.length,
            key: join(0),
            element: join(1),
          },
        };
      }
      case 'struct':
        return { cost: plus(cost(40), ...expr.fields.map(({ value }) => this.of(value).cost)), sizes: one };
      case 'comprehension':
        return this.#comprehension(expr);
      case 'bind': {
        const init = this.of(expr.init);
        const [slot = 0] = this.#checked.slots(expr);
        this.#locals.set(slot, init.sizes);
        const body = this.of(expr.body);
        return { cost: plus(init.cost, body.cost, cost(11)), sizes: body.sizes };
      }
      case 'optional-map': {
        const target = this.of(expr.target);
        const [slot = 0] = this.#checked.slots(expr);
        this.#locals.set(slot, target.sizes);
        const body = this.of(expr.body);
        return { cost: plus(target.cost, cost(1, 1 + body.cost.max)), sizes: body.sizes };
      }
    }
  }

  #name(expr: Expr): NodeEstimate | undefined {
    const reference = this.#checked.reference(expr);
    if (reference?.to === 'variable') {
      const known = Object.hasOwn(this.#variables, reference.name) ? this.#variables[reference.name] : undefined;
      return { cost: cost(1), sizes: known ?? this.#default(expr) };
    }
    if (reference?.to === 'local') return { cost: cost(1), sizes: this.#locals.get(reference.slot) ?? this.#default(expr) };
    return reference?.to === 'type' ? { cost: cost(1), sizes: one } : undefined;
  }

  #default(expr: Expr): Sizes {
    return scalar(this.#checked.typeOf(expr)) ? one : unknownSizes;
  }

  #call(expr: Call): NodeEstimate {
    const { fn, target, args } = expr;
    const reference = this.#checked.reference(expr);
    const namespaced = reference?.to === 'functions' && reference.namespaced;
    const operands = (target === undefined || namespaced ? args : [target, ...args]).map((arg) => this.of(arg));
    const costs = operands.map((each) => each.cost);
    const [first, second, third] = operands;
    if (fn === '_?_:_' && first && second && third) {
      const branches = cost(Math.min(second.cost.min, third.cost.min), Math.max(second.cost.max, third.cost.max));
      return { cost: plus(first.cost, branches), sizes: either(second.sizes, third.sizes) };
    }
    if ((fn === '_[_]' || fn === '_[?_]') && first)
      return { cost: plus(...costs, cost(1)), sizes: first.sizes.element ?? this.#default(expr) };
    const functions = reference?.to === 'functions' ? reference.functions : [];
    const mins = operands.map(({ sizes }) => sizes.min);
    const compares = functions.some((each) => each.compares);
    const maxs = operands.map(({ sizes }) => (compares ? Math.min(sizes.max, this.#compared(args)) : sizes.max));
    const own = cost(
      Math.min(...functions.map((each) => (each.cost === undefined || each.compares ? 1 : each.cost(...mins)))),
      Math.max(...functions.map((each) => (each.cost === undefined ? 1 : each.cost(...maxs)))),
    );
    const sizes = functions[0]?.resultSize === undefined ? this.#result(expr, functions, operands, mins, maxs) : joinedSizes(first, second);
    const estimate = cost(
      Math.min(...functions.map((each) => each.resultSize?.(sizes.min) ?? 0)),
      Math.max(...functions.map((each) => each.resultSize?.(sizes.max) ?? 0)),
    );
    return { cost: plus(...costs, own, estimate), sizes };
  }

  /** Returns the maximum size with which a comparison of values of this type is charged. */
  #compared([first]: readonly Expr[]): number {
    const type = first && this.#checked.typeOf(first);
    return type?.kind === 'opaque' && type.name === 'kubernetes.NamedFormat' ? mostFormatName : Number.MAX_SAFE_INTEGER;
  }

  #result(
    expr: Call,
    functions: readonly FunctionDeclaration[],
    operands: readonly NodeEstimate[],
    mins: readonly number[],
    maxs: readonly number[],
  ): Sizes {
    if (scalar(this.#checked.typeOf(expr))) return one;
    const [first, second] = operands;
    if (expr.fn === 'orValue' && first && second) return either(first.sizes, second.sizes);
    if ((expr.fn === 'value' || expr.fn === 'or' || expr.fn === 'optional.of' || expr.fn === 'of') && first) return first.sizes;
    const [rule] = functions;
    if (rule?.size === undefined) return first?.sizes.element !== undefined && maxs.length === 1 ? first.sizes.element : unknownSizes;
    const { size } = rule;
    const element =
      first?.sizes.element && second?.sizes.element
        ? either(first.sizes.element, second.sizes.element)
        : (first?.sizes.element ?? first?.sizes);
    return { min: Math.min(size(...mins), size(...maxs)), max: size(...maxs), element };
  }

  #comprehension(expr: Comprehension): NodeEstimate {
    const range = this.of(expr.range);
    const [first = 0, second] = this.#checked.slots(expr);
    const keyed = this.#checked.typeOf(expr.range).kind === 'map';
    const element = range.sizes.element ?? unknownSizes;
    const key = keyed ? (range.sizes.key ?? unknownSizes) : one;
    if (second === undefined) this.#locals.set(first, keyed ? key : element);
    else {
      this.#locals.set(first, key);
      this.#locals.set(second, element);
    }
    const body = this.of(expr.body);
    const filter = expr.filter === undefined ? undefined : this.of(expr.filter).cost;
    const { start, each, result } = foldCost(expr.macro, filter, body.cost);
    return {
      cost: plus(range.cost, cost(start), times(each, range.sizes), cost(result)),
      sizes: foldSizes(expr, range.sizes, keyed ? key : element, key, body.sizes),
    };
  }
}

/** Returns the minimum and maximum size of the string that joins the strings of a list with an optional separator. */
function joinedSizes(list: NodeEstimate | undefined, separator: NodeEstimate | undefined): Sizes {
  const { min, max, element = unknownSizes } = list?.sizes ?? unknownSizes;
  const between = separator?.sizes ?? { min: 0, max: 0 };
  return {
    min: bounded(min * element.min + Math.max(0, min - 1) * between.min),
    max: bounded(max * element.max + Math.max(0, max - 1) * between.max),
  };
}

/** The size that cost estimates assume for the name of a format in comparisons, as upstream. */
const mostFormatName = 64;
/** The opaque types whose values compare at constant cost. */
const small: ReadonlySet<string> = new Set(['kubernetes.Quantity']);

interface FoldCost {
  /** The cost before the first iteration. */
  readonly start: number;
  readonly result: number;
  readonly each: CostEstimate;
}

/** Returns the cost of a comprehension. If it has a filter, the minimum cost of an iteration is the minimum cost of the filter alone. */
function foldCost(macro: Comprehension['macro'], filter: CostEstimate | undefined, body: CostEstimate): FoldCost {
  const maybe = (step: number): CostEstimate =>
    filter === undefined ? plus(cost(step), body) : { min: bounded(filter.min + 1), max: bounded(filter.max + step + body.max) };
  switch (macro) {
    case 'all':
      return { start: 0, each: cost(3, bounded(3 + body.max)), result: 1 };
    case 'exists':
      return { start: 0, each: cost(4, bounded(4 + body.max)), result: 1 };
    case 'existsOne':
      return { start: 0, each: plus(body, cost(1, 2)), result: 2 };
    case 'filter':
      return { start: 10, each: plus(body, cost(1, 13)), result: 1 };
    case 'map':
    case 'transformList':
      return { start: 10, each: maybe(12), result: 1 };
    case 'transformMap':
      return { start: 30, each: maybe(3), result: 1 };
    case 'transformMapEntry':
      return { start: 30, each: maybe(2), result: 1 };
  }
}

/** Returns the minimum and maximum size of the result of a comprehension. `element` is the size of one element of the range. */
function foldSizes({ macro, filter }: Comprehension, range: Sizes, element: Sizes, key: Sizes, body: Sizes): Sizes {
  const upTo = { min: 0, max: range.max };
  switch (macro) {
    case 'all':
    case 'exists':
    case 'existsOne':
      return one;
    case 'filter':
      return { ...upTo, element };
    case 'map':
    case 'transformList':
      return { ...(filter === undefined ? range : upTo), element: body, field: undefined };
    default:
      return { ...upTo, key, element: body };
  }
}

function scalar(type: Type): boolean {
  const { kind } = type;
  return (
    (kind === 'opaque' && small.has(type.name)) ||
    kind === 'bool' ||
    kind === 'int' ||
    kind === 'uint' ||
    kind === 'double' ||
    kind === 'timestamp' ||
    kind === 'duration' ||
    kind === 'null'
  );
}
