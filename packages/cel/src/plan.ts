import type { Expr, ListExpr, Logic, MapExpr, OptionalMap, Select, StructExpr } from './ast.ts';
import { absorbable, CelError, noSuchKey, noSuchOverload, type CelError as Fault } from './cel-error.ts';
import type { Checked } from './checked.ts';
import { charge, type Step } from './frame.ts';
import { planCall, unresolved } from './plan-call.ts';
import { planComprehension } from './plan-comprehension.ts';
import { CelMap, FieldMap, isMap, kindOf, mapGet, none, Optional, TypeValue, itemsOf, isList, typeNameOf, type Value } from './value.ts';

const listCost = 10;
const mapCost = 30;
const structCost = 40;

/** Closures that evaluate a checked expression. */
export function plan(checked: Checked, expr: Expr): Step {
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
        charge(frame, listCost + 1); // cel.bind is a fold over nothing
        return body(frame);
      };
    }
    case 'optional-map':
      return planOptionalMap(checked, expr, step);
  }
}

function planName(checked: Checked, expr: Expr): Step | undefined {
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

/** undefined: it is not there. @throws CelError where there are no fields */
export function fieldOf(operand: Value, field: string): Value | undefined {
  if (typeof operand === 'object' && operand !== null) {
    if (Object.getPrototypeOf(operand) === Object.prototype)
      return Object.hasOwn(operand, field) ? (operand as Record<string, Value>)[field] : undefined;
    if (operand instanceof FieldMap) return operand.source.get(field);
    if (isMap(operand)) return mapGet(operand, field);
  }
  if (operand === null) return undefined;
  throw noSuchOverload();
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
        if (!absorbable(error)) throw error;
        fault ??= error;
      }
    }
    if (fault !== undefined) throw fault;
    return !decisive;
  };
}

/** An element behind `?`: undefined when there is none. */
function unwrapped(value: Value): Value | undefined {
  if (!(value instanceof Optional))
    throw new CelError('invalid-argument', `cannot initialize optional list element from non-optional value ${typeNameOf(value)}`);
  return value.value;
}

function planList({ elements, optional }: ListExpr, step: (expr: Expr) => Step): Step {
  const steps = elements.map(step);
  return (frame) => {
    const made: Value[] = [];
    for (let i = 0; i < steps.length; i++) {
      const value = (steps[i] as Step)(frame);
      const kept = optional.has(i) ? unwrapped(value) : value;
      if (kept !== undefined) made.push(kept);
    }
    charge(frame, listCost);
    return made;
  };
}

function planMap({ entries }: MapExpr, step: (expr: Expr) => Step): Step {
  const steps = entries.map(({ key, value, optional }) => ({ key: step(key), value: step(value), optional }));
  return (frame) => {
    const made = new CelMap();
    for (const { key, value, optional } of steps) {
      const at = key(frame);
      const given = value(frame);
      const kept = optional ? unwrapped(given) : given;
      if (kept === undefined) continue;
      if (made.get(at) !== undefined) throw new CelError('invalid-argument', `Failed with repeated key`);
      made.set(at, kept);
    }
    charge(frame, mapCost);
    return made;
  };
}

/** A struct of an expression's own making: its fields by name. */
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
    const made = new Map<string, Value>();
    for (const field of steps) {
      const given = field.value(frame);
      const kept = field.optional ? unwrapped(given) : given;
      if (kept !== undefined) made.set(field.name, kept);
    }
    charge(frame, structCost);
    return new FieldMap(new Fields(made), name);
  };
}

function planOptionalMap(checked: Checked, expr: OptionalMap, step: (expr: Expr) => Step): Step {
  const [target, body] = [step(expr.target), step(expr.body)];
  const [slot = 0] = checked.slots(expr);
  return (frame) => {
    const value = target(frame);
    if (!(value instanceof Optional)) throw noSuchOverload();
    charge(frame, 1);
    if (value.value === undefined) return none;
    frame.slots[slot] = value.value;
    const made = body(frame);
    if (!expr.flat) return new Optional(made);
    if (!(made instanceof Optional)) throw noSuchOverload();
    return made;
  };
}

/** `a[b]`; undefined when there is nothing at that place. @throws CelError where it can have no places */
export function elementOf(operand: Value, index: Value): Value | undefined {
  if (isList(operand)) {
    const items = itemsOf(operand);
    const at = positionOf(index);
    return at < 0 || at >= items.length ? undefined : items[at];
  }
  if (isMap(operand)) {
    const kind = kindOf(index);
    if (kind !== 'string' && kind !== 'int' && kind !== 'uint' && kind !== 'bool' && kind !== 'double') throw noSuchOverload();
    return mapGet(operand, index);
  }
  throw noSuchOverload();
}
function positionOf(index: Value): number {
  switch (kindOf(index)) {
    case 'int':
      return Number(index);
    case 'uint':
      return Number((index as { readonly value: bigint }).value);
    case 'double': {
      const at = typeof index === 'number' ? index : (index as { readonly value: number }).value;
      if (!Number.isInteger(at)) throw new CelError('invalid-argument', `unsupported index value: ${at}`);
      return at;
    }
    default:
      throw noSuchOverload();
  }
}
