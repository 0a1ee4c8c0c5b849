import { isObject } from '@oarlock/api/json/json';

/** The values that an evaluation may still visit. */
export interface JsonPathBudget {
  left: number;
}
type Step = (values: readonly unknown[], budget: JsonPathBudget) => readonly unknown[];

/**
 * The compiled jsonPath of a printer column, such as `.status.conditions[?(@.type=="Ready")].status`. Returns all matching values. The visited values
 * are subtracted from `shared`, which several paths may have in common.
 */
export type JsonPath = (object: unknown, shared?: JsonPathBudget) => readonly unknown[];

/** The maximum number of values of a step. */
const maxValues = 10_000;
/** The maximum number of values that an evaluation visits: an object has no more. Recursive descents in a row would visit the same ones again. */
const maxVisits = 100_000;

/**
 * Compiles the subset of kubectl's JSONPath that printer columns use: names, indexes, slices, wildcards, recursive descent and filters.
 * Returns undefined if the path is invalid. An evaluation beyond its bounds has the values up to there, or none.
 */
export function compileJsonPath(source: string): JsonPath | undefined {
  const evaluate = compile(source);
  if (evaluate === undefined) return undefined;
  return (object, shared = { left: maxVisits }) => {
    const visits = Math.min(maxVisits, shared.left);
    const budget = { left: visits };
    const values = evaluate([object], budget);
    shared.left -= visits - budget.left;
    return values;
  };
}

function compile(source: string): Step | undefined {
  const steps: Step[] = [];
  let rest = source.startsWith('{') && source.endsWith('}') ? source.slice(1, -1) : source;
  if (rest.startsWith('$')) rest = rest.slice(1);
  while (rest !== '') {
    const parsedStep = readStep(rest);
    if (parsedStep === undefined) return undefined;
    steps.push(parsedStep.step);
    rest = rest.slice(parsedStep.length);
  }
  return (start, budget) => {
    let values = start;
    for (const step of steps) {
      if (values.length === 0) break;
      if (budget.left <= 0) return [];
      budget.left -= 1;
      values = step(values, budget);
    }
    return values;
  };
}

interface ParsedStep {
  readonly step: Step;
  readonly length: number;
}

function readStep(text: string): ParsedStep | undefined {
  const descent = /^\.\.([\w$-]+)/.exec(text);
  if (descent?.[1] !== undefined) {
    const name = descent[1];
    return { step: descend(name), length: descent[0].length };
  }
  if (text.startsWith('.*') || text.startsWith('[*]')) return { step: allChildren, length: text.startsWith('.') ? 2 : 3 };
  const named = /^\.((?:\\.|[^\s.[\\])+)/.exec(text);
  if (named?.[1] !== undefined) return { step: member(named[1].replaceAll(/\\(.)/g, '$1')), length: named[0].length };
  if (text === '.') return { step: (values) => values, length: 1 };
  const quoted = /^\[(?:'((?:\\.|[^'\\])*)'|"((?:\\.|[^"\\])*)")\]/.exec(text);
  if (quoted !== null) return { step: member((quoted[1] ?? quoted[2] ?? '').replaceAll(/\\(.)/g, '$1')), length: quoted[0].length };
  const slice = /^\[(-?\d*)(?::(-?\d*)(?::(\d+))?)?\]/.exec(text);
  if (slice !== null && slice[0] !== '[]') {
    const [whole, from = '', to, by] = slice;
    return {
      step: to === undefined && by === undefined ? index(Number(from)) : range(from, to ?? '', Number(by ?? 1)),
      length: whole.length,
    };
  }
  const filter = /^\[\?\(/.exec(text);
  if (filter === null) return undefined;
  const end = text.indexOf(')]');
  if (end < 0) return undefined;
  const test = readFilter(text.slice(3, end).trim());
  if (test === undefined) return undefined;
  return { step: (values, budget) => allChildren(values, budget).filter((value) => test(value, budget)), length: end + 2 };
}

const member =
  (name: string): Step =>
  (values, budget) =>
    collect(values, budget, (value) => (isObject(value) && Object.hasOwn(value, name) ? [value[name]] : []));

const index =
  (at: number): Step =>
  (values, budget) =>
    collect(values, budget, (value) => (Array.isArray(value) && value.at(at) !== undefined ? [value.at(at) as unknown] : []));

const range =
  (from: string, to: string, by: number): Step =>
  (values, budget) => {
    const [start, end] = [from === '' ? 0 : Number(from), to === '' ? undefined : Number(to)];
    return collect(values, budget, (value) => (Array.isArray(value) ? value.slice(start, end).filter((_, i) => i % by === 0) : []));
  };

const allChildren: Step = (values, budget) => collect(values, budget, children);

/** Returns the values to which each value leads, within the bounds. */
function collect(values: readonly unknown[], budget: JsonPathBudget, of: (value: unknown) => readonly unknown[]): readonly unknown[] {
  const found: unknown[] = [];
  for (const value of values) {
    if (found.length >= maxValues || budget.left <= 0) break;
    const next = of(value);
    budget.left -= next.length;
    for (let at = 0; at < next.length && found.length < maxValues; at++) found.push(next[at]);
  }
  return found;
}

function children(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? (value as unknown[]) : isObject(value) ? Object.values(value) : [];
}

/** Returns the members of a name at all depths, each before those in it. */
const descend =
  (name: string): Step =>
  (values, budget) => {
    const found: unknown[] = [];
    const stack = values.toReversed();
    while (stack.length > 0 && found.length < maxValues && budget.left > 0) {
      const value = stack.pop();
      if (isObject(value) && Object.hasOwn(value, name)) found.push(value[name]);
      const next = children(value);
      budget.left -= 1 + next.length;
      for (let at = next.length - 1; at >= 0; at--) stack.push(next[at]);
    }
    return found;
  };

type Operand = (item: unknown, budget: JsonPathBudget) => readonly unknown[];

function readFilter(text: string): ((item: unknown, budget: JsonPathBudget) => boolean) | undefined {
  const found = /==|!=|<=|>=|<|>/.exec(text);
  if (found === null) {
    const operand = readOperand(text);
    return operand && ((item, budget) => operand(item, budget).length > 0);
  }
  const [operator] = found;
  const [left, right] = [readOperand(text.slice(0, found.index).trim()), readOperand(text.slice(found.index + operator.length).trim())];
  if (left === undefined || right === undefined) return undefined;
  return (item, budget) => {
    const [a, b] = [left(item, budget), right(item, budget)];
    return a.length > 0 && b.length > 0 && compare(a[0], operator, b[0]);
  };
}

function readOperand(text: string): Operand | undefined {
  if (text.startsWith('@')) {
    const evaluate = compile(text.slice(1) === '' ? '.' : text.slice(1));
    return evaluate && ((item, budget) => evaluate([item], budget));
  }
  const quoted = /^(?:'(.*)'|"(.*)")$/.exec(text);
  if (quoted !== null) return () => [quoted[1] ?? quoted[2] ?? ''];
  if (text === 'true' || text === 'false') return () => [text === 'true'];
  const number = Number(text);
  return text !== '' && Number.isFinite(number) ? () => [number] : undefined;
}

function compare(a: unknown, operator: string, b: unknown): boolean {
  if (operator === '==') return a === b;
  if (operator === '!=') return a !== b;
  if (typeof a !== typeof b || (typeof a !== 'number' && typeof a !== 'string')) return false;
  const [x, y] = [a as number, b as number];
  return operator === '<' ? x < y : operator === '>' ? x > y : operator === '<=' ? x <= y : x >= y;
}
