import type { Comprehension, Expr } from '../syntax/ast.ts';
import { isAbsorbable, CelError, noSuchOverload, type CelError as Fault } from '../values/cel-error.ts';
import type { CheckedExpression } from '../checker/checked-expression.ts';
import { charge, type Frame, type Step } from './frame.ts';
import { CelMap, isList, isMap, itemsOf, mapGet, mapKeys, type Value } from '../values/value.ts';

// costs of cel-go's comprehensions besides the predicate: loop condition, loop step, result
const quantifierLoop = { all: 3, exists: 4 } as const;
/** The cost of evaluating the loop condition alone: cel-go evaluates it once more if the loop ends before the last element. */
const quantifierCondition = { all: 2, exists: 3 } as const;
const resultCost = 1;
const appendCost = 12;
/** The cost of creating the empty result. */
const startCost = { list: 10, map: 30 } as const;
/** The cost of inserting a key and its value into a map (`value`), or all entries of a map (`entries`). */
const insertCost = { value: 2, entries: 1 } as const;

type Each = (frame: Frame, position: number) => void;

/** Iterates over a range and stores the elements in the slots of the macro's variables. */
class IterationRange {
  readonly #values: readonly Value[];
  readonly #of: Value;
  readonly #pairs: boolean;
  readonly #first: number;
  readonly #second: number;

  constructor(of: Value, pairs: boolean, [first = 0, second = 0]: readonly number[]) {
    if (isList(of)) this.#values = itemsOf(of);
    else if (isMap(of)) this.#values = mapKeys(of);
    else throw noSuchOverload();
    this.#of = of;
    this.#pairs = pairs;
    this.#first = first;
    this.#second = second;
  }
  get length(): number {
    return this.#values.length;
  }
  get keyed(): boolean {
    return !isList(this.#of);
  }
  enter(frame: Frame, i: number): void {
    const value = this.#values[i] ?? null;
    if (!this.#pairs) {
      frame.slots[this.#first] = value;
    } else if (isMap(this.#of)) {
      frame.slots[this.#first] = value;
      frame.slots[this.#second] = mapGet(this.#of, value) ?? null;
    } else {
      frame.slots[this.#first] = i;
      frame.slots[this.#second] = value;
    }
  }
  key(i: number): Value {
    return this.keyed ? (this.#values[i] ?? null) : i;
  }
  element(i: number): Value {
    return this.#values[i] ?? null;
  }
}

export function planComprehension(checked: CheckedExpression, expr: Comprehension, step: (expr: Expr) => Step): Step {
  const { macro } = expr;
  const slots = checked.slots(expr);
  const pairs = expr.second !== undefined;
  const [over, body] = [step(expr.range), step(expr.body)];
  const filter = expr.filter && step(expr.filter);
  const open = (frame: Frame) => new IterationRange(over(frame), pairs, slots);
  const passes = (frame: Frame): boolean => filter === undefined || truth(filter(frame));
  switch (macro) {
    case 'all':
    case 'exists':
      return quantifier(open, body, macro);
    case 'existsOne':
      return (frame) => {
        const range = open(frame);
        let count = 0;
        for (let i = 0; i < range.length; i++) {
          range.enter(frame, i);
          charge(frame, 1);
          if (truth(body(frame))) {
            charge(frame, 1);
            count++;
          }
        }
        charge(frame, resultCost + 1);
        return count === 1;
      };
    case 'filter':
      return (frame) => {
        const range = open(frame);
        charge(frame, startCost.list);
        const kept: Value[] = [];
        for (let i = 0; i < range.length; i++) {
          range.enter(frame, i);
          charge(frame, 1);
          if (!truth(body(frame))) continue;
          charge(frame, appendCost);
          kept.push(range.element(i));
        }
        charge(frame, resultCost);
        return kept;
      };
    case 'map':
    case 'transformList':
      return (frame) => {
        const result: Value[] = [];
        const range = open(frame);
        charge(frame, startCost.list);
        each(frame, range, () => {
          if (!passes(frame)) return;
          result.push(body(frame));
          charge(frame, appendCost - 1);
        });
        return result;
      };
    case 'transformMap':
      return (frame) => {
        const result = new CelMap();
        const range = open(frame);
        charge(frame, startCost.map);
        each(frame, range, (_, i) => {
          if (!passes(frame)) return;
          result.set(range.key(i), body(frame));
          charge(frame, insertCost.value);
        });
        return result;
      };
    case 'transformMapEntry':
      return (frame) => {
        const result = new CelMap();
        const range = open(frame);
        charge(frame, startCost.map);
        each(frame, range, () => {
          if (!passes(frame)) return;
          const entries = body(frame);
          charge(frame, insertCost.entries);
          if (!isMap(entries)) throw noSuchOverload();
          for (const key of mapKeys(entries)) {
            if (result.get(key) !== undefined) throw new CelError('invalid-argument', `insert failed: key ${String(key)} already exists`);
            result.set(key, mapGet(entries, key) ?? null);
          }
        });
        return result;
      };
  }
}

function each(frame: Frame, range: IterationRange, run: Each): void {
  for (let i = 0; i < range.length; i++) {
    range.enter(frame, i);
    charge(frame, 1);
    run(frame, i);
  }
  charge(frame, resultCost);
}

function truth(value: Value): boolean {
  if (typeof value !== 'boolean') throw noSuchOverload();
  return value;
}

function quantifier(open: (frame: Frame) => IterationRange, body: Step, macro: 'all' | 'exists'): Step {
  const decisive = macro === 'exists';
  const loop = quantifierLoop[macro];
  return (frame) => {
    const range = open(frame);
    let fault: Fault | undefined;
    for (let i = 0; i < range.length; i++) {
      range.enter(frame, i);
      charge(frame, loop);
      try {
        const value = body(frame);
        if (value === decisive) {
          charge(frame, i + 1 < range.length ? quantifierCondition[macro] + resultCost : resultCost);
          return decisive;
        }
        if (typeof value !== 'boolean') fault ??= noSuchOverload();
      } catch (error) {
        if (!isAbsorbable(error)) throw error;
        fault ??= error;
      }
    }
    charge(frame, resultCost);
    if (fault !== undefined) throw fault;
    return !decisive;
  };
}
