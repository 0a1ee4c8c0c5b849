import type { Expr, ListExpr, Logic, MapExpr, OptionalMap, Select, StructExpr } from '../syntax/ast.ts';
import { isAbsorbable, CelError, noSuchKey, noSuchOverload, type CelError as Fault } from '../values/cel-error.ts';
import type { CheckedExpression } from '../checker/checked-expression.ts';
import { charge, type Step } from './frame.ts';
import { planCall, unresolved } from './plan-call.ts';
import { planComprehension } from './plan-comprehension.ts';
import { fieldOf } from '../values/access.ts';
import { CelMap, FieldMap, none, Optional, TypeValue, typeNameOf, type Value } from '../values/value.ts';

const listCost = 10;
const mapCost = 30;
const structCost = 40;

/** Compiles a checked expression to a closure that evaluates it. */
export function plan(checked: CheckedExpression, expr: Expr): Step {
  const step = (each: Expr) => plan(checked, each);
  switch (expr.kind) {
    case 'const': {
      const { value } = expr;
      return () => value;
    }
    case 'ident':
      return planName(checked, expr) ?? unresolved(expr.name);
    case 'select':
      return planName(checked, expr) ?? planSelect(expr, step);
    case 'call':
      return planCall(checked, expr, step);
    case 'logic':
      return planLogic(expr, step);
    case 'list':
      return planList(expr, step);
    case 'map':
      return planMap(expr, step);
    case 'struct':
      return planStruct(expr, step);
    case 'comprehension':
      return planComprehension(checked, expr, step);
    case 'bind': {
      const [init, body] = [step(expr.init), step(expr.body)];
      const [slot = 0] = checked.slots(expr);
      return (frame) => {
        frame.slots[slot] = init(frame);
        charge(frame, listCost + 1); // cel.bind is a comprehension over an empty list
        return body(frame);
      };
    }
    case 'optional-map':
      return planOptionalMap(checked, expr, step);
  }
}

function planName(checked: CheckedExpression, expr: Expr): Step | undefined {
  const reference = checked.reference(expr);
  switch (reference?.to) {
    case 'local': {
      const { slot } = reference;
      return (frame) => {
        charge(frame, 1);
        return frame.slots[slot] as Value;
      };
    }
    case 'variable': {
      const { name } = reference;
      return (frame) => {
        charge(frame, 1);
        const value = frame.bindings[name];
        if (value === undefined) throw new CelError('no-such-attribute', `no such attribute(s): ${name}`);
        return value;
      };
    }
    case 'type': {
      const value = new TypeValue(reference.name);
      return (frame) => {
        charge(frame, 1);
        return value;
      };
    }
    default:
      return undefined;
  }
}

function planSelect({ operand, field, test, optional }: Select, step: (expr: Expr) => Step): Step {
  const from = step(operand);
  if (test) {
    return (frame) => {
      const value = from(frame);
      if (value instanceof Optional) return value.value !== undefined && fieldOf(value.value, field) !== undefined;
      return fieldOf(value, field) !== undefined;
    };
  }
  return (frame) => {
    const value = from(frame);
    charge(frame, 1);
    if (value instanceof Optional) {
      if (value.value === undefined) return none;
      return optionalFrom(fieldOf(value.value, field));
    }
    const found = fieldOf(value, field);
    if (optional) return optionalFrom(found);
    if (found === undefined) throw noSuchKey(field);
    return found;
  };
}
const optionalFrom = (value: Value | undefined): Optional =>
  value === undefined ? none : value instanceof Optional ? value : new Optional(value);

function planLogic({ op, terms }: Logic, step: (expr: Expr) => Step): Step {
  const steps = terms.map(step);
  const decisive = op === '_||_';
  return (frame) => {
    let fault: Fault | undefined;
    for (let i = 0; i < steps.length; i++) {
      try {
        const value = (steps[i] as Step)(frame);
        if (value === decisive) return decisive;
        if (typeof value !== 'boolean') fault ??= noSuchOverload();
      } catch (error) {
        if (!isAbsorbable(error)) throw error;
        fault ??= error;
      }
    }
    if (fault !== undefined) throw fault;
    return !decisive;
  };
}

/** Returns the value inside of an optional value, for an element marked with `?`; undefined if the optional value is empty. */
function unwrapped(value: Value): Value | undefined {
  if (!(value instanceof Optional))
    throw new CelError('invalid-argument', `cannot initialize optional list element from non-optional value ${typeNameOf(value)}`);
  return value.value;
}

function planList({ elements, optional }: ListExpr, step: (expr: Expr) => Step): Step {
  const steps = elements.map(step);
  return (frame) => {
    const result: Value[] = [];
    for (let i = 0; i < steps.length; i++) {
      const value = (steps[i] as Step)(frame);
      const kept = optional.has(i) ? unwrapped(value) : value;
      if (kept !== undefined) result.push(kept);
    }
    charge(frame, listCost);
    return result;
  };
}

function planMap({ entries }: MapExpr, step: (expr: Expr) => Step): Step {
  const steps = entries.map(({ key, value, optional }) => ({ key: step(key), value: step(value), optional }));
  return (frame) => {
    const result = new CelMap();
    for (const { key, value, optional } of steps) {
      const at = key(frame);
      const entryValue = value(frame);
      const kept = optional ? unwrapped(entryValue) : entryValue;
      if (kept === undefined) continue;
      if (result.get(at) !== undefined) throw new CelError('invalid-argument', `Failed with repeated key`);
      result.set(at, kept);
    }
    charge(frame, mapCost);
    return result;
  };
}

/** The fields of a struct that a struct literal creates. */
class Fields {
  readonly #values: ReadonlyMap<string, Value>;
  constructor(values: ReadonlyMap<string, Value>) {
    this.#values = values;
  }
  get(key: string): Value | undefined {
    return this.#values.get(key);
  }
  keys(): readonly string[] {
    return [...this.#values.keys()];
  }
}

function planStruct({ name, fields }: StructExpr, step: (expr: Expr) => Step): Step {
  const steps = fields.map((field) => ({ name: field.name, value: step(field.value), optional: field.optional }));
  return (frame) => {
    const result = new Map<string, Value>();
    for (const field of steps) {
      const fieldValue = field.value(frame);
      const kept = field.optional ? unwrapped(fieldValue) : fieldValue;
      if (kept !== undefined) result.set(field.name, kept);
    }
    charge(frame, structCost);
    return new FieldMap(new Fields(result), name);
  };
}

function planOptionalMap(checked: CheckedExpression, expr: OptionalMap, step: (expr: Expr) => Step): Step {
  const [target, body] = [step(expr.target), step(expr.body)];
  const [slot = 0] = checked.slots(expr);
  return (frame) => {
    const value = target(frame);
    if (!(value instanceof Optional)) throw noSuchOverload();
    charge(frame, 1);
    if (value.value === undefined) return none;
    frame.slots[slot] = value.value;
    const result = body(frame);
    if (!expr.flat) return new Optional(result);
    if (!(result instanceof Optional)) throw noSuchOverload();
    return result;
  };
}
