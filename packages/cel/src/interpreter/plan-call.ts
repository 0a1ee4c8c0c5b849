import type { Call, Expr } from '../syntax/ast.ts';
import { CelError, noSuchOverload } from '../values/cel-error.ts';
import type { CheckedExpression } from '../checker/checked-expression.ts';
import { charge, type Step } from './frame.ts';
import { accepts, type FunctionDeclaration } from '../libraries/library.ts';
import { Opaque, sizeOf, type Value } from '../values/value.ts';

/**
 * Returns a step that throws when it is evaluated, because a name in the expression is unknown. An unknown name is an error only if
 * evaluation reaches it.
 */
export function unresolved(name: string): Step {
  return () => {
    throw new CelError('no-such-attribute', `no such attribute(s): ${name}`);
  };
}

/**
 * Compiles a call. If the argument types are known, the overload is selected at compile time, otherwise from the argument values on each
 * evaluation.
 */
export function planCall(checked: CheckedExpression, expr: Call, step: (expr: Expr) => Step): Step {
  const { fn, target, args } = expr;
  if (fn === '_?_:_') {
    const [condition, then, otherwise] = args.map(step) as [Step, Step, Step];
    return (frame) => {
      const value = condition(frame);
      if (value === true) return then(frame);
      if (value === false) return otherwise(frame);
      throw noSuchOverload();
    };
  }
  const reference = checked.reference(expr);
  if (reference?.to !== 'functions') return unresolved(fn);
  const { functions, namespaced, exact } = reference;
  const argSteps = (target === undefined || namespaced ? args : [target, ...args]).map(step);
  const [only] = functions;
  if (functions.length === 1 && only !== undefined && (exact || only.dynamic)) return planKnownFunction(only, argSteps);
  return (frame) => {
    const values = argSteps.map((each) => each(frame));
    const found = functions.find(({ overloads }) => overloads.some((overload) => accepts(overload, values)));
    if (found === undefined) throw noSuchOverload();
    charge(frame, callCost(found, values));
    const value = (found.call as (...args: Value[]) => Value)(...values);
    if (found.resultSize !== undefined) charge(frame, found.resultSize(sizeOf(value)));
    return value;
  };
}

function planKnownFunction(fn: FunctionDeclaration, argSteps: readonly Step[]): Step {
  const step = planInvocation(fn, argSteps);
  const { resultSize: resultCost } = fn;
  if (resultCost === undefined) return step;
  return (frame) => {
    const value = step(frame);
    charge(frame, resultCost(sizeOf(value)));
    return value;
  };
}

function callCost({ cost, argumentCost }: FunctionDeclaration, args: readonly Value[]): number {
  const base = cost === undefined ? 1 : cost(...args.map(sizeOf));
  return argumentCost === undefined ? base : base + (argumentCost as (...args: Value[]) => number)(...args);
}

function planInvocation(fn: FunctionDeclaration, argSteps: readonly Step[]): Step {
  const { cost, call, compares } = fn;
  const run = call as (...args: Value[]) => Value;
  const [first, second] = argSteps as [Step, Step];
  if (fn.argumentCost === undefined && argSteps.length === 1) {
    return (frame) => {
      const value = first(frame);
      charge(frame, cost === undefined ? 1 : cost(sizeOf(value)));
      return run(value);
    };
  }
  if (fn.argumentCost === undefined && argSteps.length === 2) {
    return (frame) => {
      const [a, b] = [first(frame), second(frame)];
      const once = cost === undefined || (typeof a === 'number' && typeof b === 'number') || (compares && a instanceof Opaque);
      charge(frame, once ? 1 : cost(sizeOf(a), sizeOf(b)));
      return run(a, b);
    };
  }
  return (frame) => {
    const values = argSteps.map((each) => each(frame));
    charge(frame, callCost(fn, values));
    return run(...values);
  };
}
