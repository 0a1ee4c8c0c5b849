import { isObject } from '@oarlock/api/json/json';

type Step = (values: readonly unknown[]) => readonly unknown[];

/** The compiled jsonPath of a printer column, such as `.status.conditions[?(@.type=="Ready")].status`. Returns all matching values. */
export type JsonPath = (object: unknown) => readonly unknown[];

const maxValues = 10_000;

/**
 * Compiles the subset of kubectl's JSONPath that printer columns use: names, indexes, slices, wildcards, recursive descent and filters.
 * Returns undefined if the path is invalid.
 */
export function compileJsonPath(source: string): JsonPath | undefined {
  const steps: Step[] = [];
  let rest = source.startsWith('{') && source.endsWith('}') ? source.slice(1, -1) : source;
  if (rest.startsWith('$')) rest = rest.slice(1);
  while (rest !== '') {
    const parsedStep = readStep(rest);
    if (parsedStep === undefined) return undefined;
    steps.push(parsedStep.step);
    rest = rest.slice(parsedStep.length);
  }
  return (object) => {
    let values: readonly unknown[] = [object];
    for (const step of steps) {
      values = step(values);
      if (values.length === 0) return values;
      if (values.length > maxValues) values = values.slice(0, maxValues);
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
    return { step: (values) => values.flatMap((value) => descend(value, name)), length: descent[0].length };
  }
  if (text.startsWith('.*') || text.startsWith('[*]'))
    return { step: (values) => values.flatMap(children), length: text.startsWith('.') ? 2 : 3 };
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
  return { step: (values) => values.flatMap(children).filter(test), length: end + 2 };
}

const member =
  (name: string): Step =>
  (values) =>
    values.flatMap((value) => (isObject(value) && Object.hasOwn(value, name) ? [value[name]] : []));

const index =
  (at: number): Step =>
  (values) =>
    values.flatMap((value) => (Array.isArray(value) && value.at(at) !== undefined ? [value.at(at) as unknown] : []));

const range =
  (from: string, to: string, by: number): Step =>
  (values) =>
    values.flatMap((value) =>
      Array.isArray(value)
        ? (value as unknown[]).slice(from === '' ? 0 : Number(from), to === '' ? undefined : Number(to)).filter((_, i) => i % by === 0)
        : [],
    );

function children(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? (value as unknown[]) : isObject(value) ? Object.values(value) : [];
}

function descend(value: unknown, name: string): readonly unknown[] {
  const own = isObject(value) && Object.hasOwn(value, name) ? [value[name]] : [];
  return [...own, ...children(value).flatMap((child) => descend(child, name))];
}

type Operand = (item: unknown) => readonly unknown[];

function readFilter(text: string): ((item: unknown) => boolean) | undefined {
  const found = /^(.+?)\s*(==|!=|<=|>=|<|>)\s*(.+)$/.exec(text);
  if (found === null) {
    const operand = readOperand(text);
    return operand && ((item) => operand(item).length > 0);
  }
  const [left, right] = [readOperand(found[1] ?? ''), readOperand(found[3] ?? '')];
  const operator = found[2] ?? '';
  if (left === undefined || right === undefined) return undefined;
  return (item) => {
    const [a, b] = [left(item), right(item)];
    return a.length > 0 && b.length > 0 && compare(a[0], operator, b[0]);
  };
}

function readOperand(text: string): Operand | undefined {
  if (text.startsWith('@')) return compileJsonPath(text.slice(1) === '' ? '.' : text.slice(1));
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
