import type { Call, Expr } from './ast.ts';
import { CelError, noSuchOverload } from './cel-error.ts';
import type { Checked } from './checked.ts';
import { charge, type Step } from './frame.ts';
import { accepts, type Fn } from './library.ts';
import { Opaque, sizeOf, type Value } from './value.ts';

/** Fails when it is reached: nothing of that name was found, which an expression that is not checked may still survive. */
export function unresolved(name: string): Step {
  return () => {
    throw new CelError('no-such-attribute', `no such attribute(s): ${name}`);
  };
}

/** A call of what its name and the types of its arguments lead to; where those are not known before, of what its arguments turn out to be. */
export function planCall(checked: Checked, expr: Call, step: (expr: Expr) => Step): Step {
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
  const given = (target === undefined || namespaced ? args : [target, ...args]).map(step);
  const [only] = functions;
  if (functions.length === 1 && only !== undefined && (exact || only.dynamic)) return direct(only, given);
  return (frame) => {
    const values = given.map((each) => each(frame));
    const found = functions.find(({ overloads }) => overloads.some((overload) => accepts(overload, values)));
    if (found === undefined) throw noSuchOverload();
    charge(frame, found.cost === undefined ? 1 : found.cost(...values.map(sizeOf)));
    const value = (found.call as (...args: Value[]) => Value)(...values);
    if (found.made !== undefined) charge(frame, found.made(sizeOf(value)));
    return value;
  };
}

function direct(fn: Fn, given: readonly Step[]): Step {
  const step = called(fn, given);
  const { made } = fn;
  if (made === undefined) return step;
  return (frame) => {
    const value = step(frame);
    charge(frame, made(sizeOf(value)));
    return value;
  };
}

function called({ cost, call, compares }: Fn, given: readonly Step[]): Step {
  const run = call as (...args: Value[]) => Value;
  const [first, second] = given as [Step, Step];
  if (given.length === 1) {
    return (frame) => {
      const value = first(frame);
      charge(frame, cost === undefined ? 1 : cost(sizeOf(value)));
      return run(value);
    };
  }
  if (given.length === 2) {
    return (frame) => {
      const [a, b] = [first(frame), second(frame)];
      const once = cost === undefined || (typeof a === 'number' && typeof b === 'number') || (compares && a instanceof Opaque);
      charge(frame, once ? 1 : cost(sizeOf(a), sizeOf(b)));
      return run(a, b);
    };
  }
  return (frame) => {
    const values = given.map((each) => each(frame));
    charge(frame, cost === undefined ? 1 : cost(...values.map(sizeOf)));
    return run(...values);
  };
}
