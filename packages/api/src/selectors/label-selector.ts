import { invalid, type FieldError } from '../field/field-error.ts';
import type { LabelSelector } from '../generated/types/meta-v1.ts';
import { parseInt64 } from '../values/int64.ts';
import { isLabelValue, isQualifiedName } from '../values/names.ts';
import { ParseError } from '../values/parse-error.ts';

export type LabelOperator = '=' | '==' | '!=' | 'in' | 'notin' | 'exists' | '!' | 'gt' | 'lt';
export interface LabelRequirement {
  readonly key: string;
  readonly operator: LabelOperator;
  /** The values: one for `=`, `==`, `!=`, `gt` and `lt`, at least one for `in` and `notin`, otherwise none. */
  readonly values: readonly string[];
}
export type Labels = Readonly<Record<string, string>>;

/** A compiled label selector (labels.Selector). Immutable; all requirements must match; they are sorted by key. */
export interface Selector {
  readonly requirements: readonly LabelRequirement[];
  /** True if the selector selects every object. */
  readonly empty: boolean;
  /** True if the selector selects no object. */
  readonly matchesNothing: boolean;
  matches(labels: Labels | undefined): boolean;
  /** Formats the selector in the syntax of `parseLabelSelector`: `a=b,c in (d,e),!f`. */
  toString(): string;
}

const has = (labels: Labels, key: string) => Object.hasOwn(labels, key);

function compileRequirement({ key, operator, values }: LabelRequirement): (labels: Labels) => boolean {
  const [first = ''] = values;
  switch (operator) {
    case '=':
    case '==':
      return (labels) => has(labels, key) && labels[key] === first;
    case '!=':
      return (labels) => !has(labels, key) || labels[key] !== first;
    case 'exists':
      return (labels) => has(labels, key);
    case '!':
      return (labels) => !has(labels, key);
    case 'in': {
      const set = new Set(values);
      return (labels) => has(labels, key) && set.has(labels[key] ?? '');
    }
    case 'notin': {
      const set = new Set(values);
      return (labels) => !has(labels, key) || !set.has(labels[key] ?? '');
    }
    case 'gt':
    case 'lt': {
      const bound = parseInt64(first);
      return (labels) => {
        const value = has(labels, key) ? parseInt64(labels[key] ?? '') : undefined;
        if (bound === undefined || value === undefined) return false;
        return operator === 'gt' ? value > bound : value < bound;
      };
    }
  }
}

function requirementText({ key, operator, values }: LabelRequirement): string {
  const list = [...values].sort().join(',');
  switch (operator) {
    case 'exists':
      return key;
    case '!':
      return `!${key}`;
    case 'in':
    case 'notin':
      return `${key} ${operator} (${list})`;
    case 'gt':
      return `${key}>${list}`;
    case 'lt':
      return `${key}<${list}`;
    default:
      return `${key}${operator}${list}`;
  }
}

class CompiledSelector implements Selector {
  readonly requirements: readonly LabelRequirement[];
  readonly matchesNothing = false;
  readonly #predicates: readonly ((labels: Labels) => boolean)[];
  constructor(requirements: readonly LabelRequirement[]) {
    this.requirements = [...requirements].sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0));
    this.#predicates = this.requirements.map(compileRequirement);
  }
  get empty() {
    return this.requirements.length === 0;
  }
  matches(labels: Labels | undefined): boolean {
    const actual = labels ?? noLabels;
    for (const predicate of this.#predicates) if (!predicate(actual)) return false;
    return true;
  }
  toString() {
    return this.requirements.map(requirementText).join(',');
  }
}
const noLabels: Labels = Object.freeze({});

/** The label selector that selects every object. */
export const everything: Selector = new CompiledSelector([]);
/** The label selector that selects no object. */
export const nothing: Selector = { requirements: [], empty: false, matchesNothing: true, matches: () => false, toString: () => '' };

const joined = (errors: readonly FieldError[]) => {
  const lines = [...new Set(errors.map(({ field, message }) => `${field}: ${message}`))];
  return lines.length === 1 ? (lines[0] ?? '') : `[${lines.join(', ')}]`;
};
const invalidSelector = (message: string) => new ParseError('label-selector', message);

function checkRequirement({ key, operator, values }: LabelRequirement): void {
  const errors: FieldError[] = [];
  const keyErrors = isQualifiedName(key);
  if (keyErrors.length > 0) errors.push(invalid('key', key, keyErrors.join('; ')));
  if (operator === 'gt' || operator === 'lt') {
    for (const [i, value] of values.entries()) {
      if (parseInt64(value) === undefined)
        errors.push(invalid(`values[${i}]`, value, "for 'Gt', 'Lt' operators, the value must be an integer"));
    }
  }
  for (const [i, value] of values.entries()) {
    const valueErrors = isLabelValue(value);
    if (valueErrors.length > 0) errors.push(invalid(`values[${i}][${key}]`, value, valueErrors.join('; ')));
  }
  if (errors.length > 0) throw invalidSelector(joined(errors));
}

/** Returns a selector for objects that have all of `labels`, or for every object if `labels` is empty or undefined. Does not validate the labels. */
export function selectorFromLabels(labels: Labels | undefined): Selector {
  const entries = Object.entries(labels ?? {});
  return entries.length === 0 ? everything : new CompiledSelector(entries.map(([key, value]) => ({ key, operator: '=', values: [value] })));
}

function checkValueCount({ operator, values }: LabelRequirement): void {
  const reject = (rule: string) => {
    throw invalidSelector(`values: Invalid value: ${JSON.stringify(values)}: ${rule}`);
  };
  if (operator === 'in' || operator === 'notin') {
    if (values.length === 0) reject("for 'in', 'notin' operators, values set can't be empty");
  } else if (operator === 'exists' || operator === '!') {
    if (values.length > 0) reject('values set must be empty for exists and does not exist');
  } else if (operator === 'gt' || operator === 'lt') {
    if (values.length !== 1) reject("for 'Gt', 'Lt' operators, exactly one value is required");
  } else if (values.length !== 1) reject('exact-match compatibility requires one single value');
}

/**
 * Compiles requirements that all have to be met, as upstream's `labels.NewRequirement` does for each; none select every object.
 * @throws ParseError code `label-selector` for a key or value that no label can have, and a number of values that the operator does not take.
 */
export function selectorFromRequirements(requirements: readonly LabelRequirement[]): Selector {
  for (const requirement of requirements) {
    checkValueCount(requirement);
    checkRequirement(requirement);
  }
  return requirements.length === 0 ? everything : new CompiledSelector(requirements);
}

const objectOperators: Readonly<Record<string, LabelOperator>> = { In: 'in', NotIn: 'notin', Exists: 'exists', DoesNotExist: '!' };

/**
 * Compiles a LabelSelector: undefined selects nothing, an empty one everything (metav1.LabelSelectorAsSelector).
 * @throws ParseError code `label-selector`.
 */
export function selectorFromLabelSelector(selector: LabelSelector | undefined): Selector {
  if (selector === undefined) return nothing;
  const requirements = Object.entries(selector.matchLabels ?? {}).map(
    ([key, value]): LabelRequirement => ({ key, operator: '=', values: [value] }),
  );
  for (const { key, operator, values = [] } of selector.matchExpressions ?? []) {
    const op = Object.hasOwn(objectOperators, operator) ? objectOperators[operator] : undefined;
    if (op === undefined) throw invalidSelector(`${JSON.stringify(operator)} is not a valid label selector operator`);
    const requirement: LabelRequirement = { key, operator: op, values };
    checkValueCount(requirement);
    requirements.push(requirement);
  }
  for (const requirement of requirements) checkRequirement(requirement);
  return requirements.length === 0 ? everything : new CompiledSelector(requirements);
}

type Token = 'id' | 'in' | 'notin' | 'end' | 'error' | ')' | ',' | '!' | '==' | '=' | '>' | '<' | '!=' | '(';
interface Item {
  readonly token: Token;
  readonly text: string;
}
const symbols: ReadonlySet<string> = new Set([')', ',', '!', '==', '=', '>', '<', '!=', '(']);
const maxLength = 64 * 1024;

function scan(text: string): Item[] {
  const items: Item[] = [];
  const pattern = /[ \t\r\n]*(?:([=!(),<>]+)|([^=!(),<> \t\r\n]+))?/y;
  while (pattern.lastIndex < text.length) {
    const match = pattern.exec(text);
    const run = match?.[1];
    const word = match?.[2];
    if (word !== undefined) items.push({ token: word === 'in' || word === 'notin' ? word : 'id', text: word });
    else if (run !== undefined) scanSymbols(run, items);
  }
  return [...items, { token: 'end', text: '' }];
}

/** Splits operators: `,!` is two symbols, `!=` and `==` are one. */
function scanSymbols(run: string, items: Item[]): void {
  for (let at = 0; at < run.length; ) {
    const two = run.slice(at, at + 2);
    const symbol = two.length === 2 && symbols.has(two) ? two : run.charAt(at);
    items.push({ token: symbol as Token, text: symbol });
    at += symbol.length;
  }
}

class Parser {
  readonly #items: readonly Item[];
  #at = 0;
  constructor(text: string) {
    this.#items = scan(text);
  }

  #look(): Item {
    return this.#items[this.#at] ?? { token: 'end', text: '' };
  }
  #next(): Item {
    const item = this.#look();
    this.#at++;
    return item;
  }
  /** The keywords `in` and `notin` are also valid keys and values. */
  static #isWord({ token }: Item) {
    return token === 'id' || token === 'in' || token === 'notin';
  }

  parse(): LabelRequirement[] {
    const requirements: LabelRequirement[] = [];
    for (;;) {
      const first = this.#look();
      if (first.token === 'end') return requirements;
      if (!Parser.#isWord(first) && first.token !== '!')
        throw invalidSelector(`found '${first.text}', expected: !, identifier, or 'end of string'`);
      try {
        const requirement = this.#requirement();
        checkRequirement(requirement);
        requirements.push(requirement);
      } catch (error) {
        throw error instanceof ParseError ? new ParseError('label-selector', `unable to parse requirement: ${error.message}`) : error;
      }
      const separator = this.#next();
      if (separator.token === 'end') return requirements;
      if (separator.token !== ',') throw invalidSelector(`found '${separator.text}', expected: ',' or 'end of string'`);
      const following = this.#look();
      if (!Parser.#isWord(following) && following.token !== '!')
        throw invalidSelector(`found '${following.text}', expected: identifier after ','`);
    }
  }

  #requirement(): LabelRequirement {
    const negated = this.#look().token === '!';
    if (negated) this.#next();
    const key = this.#next();
    if (!Parser.#isWord(key)) throw invalidSelector(`found '${key.text}', expected: identifier`);
    const keyErrors = isQualifiedName(key.text);
    if (keyErrors.length > 0) throw invalidSelector(`<nil>: ${invalid('', key.text, keyErrors.join('; ')).message}`);
    if (negated) return { key: key.text, operator: '!', values: [] };
    const { token } = this.#look();
    if (token === 'end' || token === ',') return { key: key.text, operator: 'exists', values: [] };
    const operator = this.#operator();
    const values = operator === 'in' || operator === 'notin' ? this.#list() : [this.#exact()];
    return { key: key.text, operator, values };
  }

  #operator(): LabelOperator {
    const { token, text } = this.#next();
    switch (token) {
      case '=':
      case '==':
      case '!=':
      case 'in':
      case 'notin':
        return token;
      case '>':
        return 'gt';
      case '<':
        return 'lt';
      default:
        throw invalidSelector(`found '${text}', expected: in, notin, =, ==, !=, gt, lt`);
    }
  }

  #exact(): string {
    const { token } = this.#look();
    if (token === 'end' || token === ',') return '';
    const item = this.#next();
    if (!Parser.#isWord(item)) throw invalidSelector(`found '${item.text}', expected: identifier`);
    return item.text;
  }

  /** Parses `(a,,b)`; an omitted value is the empty string. */
  #list(): string[] {
    const open = this.#next();
    if (open.token !== '(') throw invalidSelector(`found '${open.text}' expected: '('`);
    const values = new Set<string>();
    let wanted = true;
    for (;;) {
      const item = this.#next();
      if (Parser.#isWord(item) && wanted) {
        values.add(item.text);
        wanted = false;
      } else if (item.token === ',' || item.token === ')') {
        if (wanted) values.add('');
        if (item.token === ')') return [...values].sort();
        wanted = true;
      } else throw invalidSelector(`found '${item.text}', expected: ${wanted ? "',', or identifier" : "',' or ')'"}`);
    }
  }
}

/**
 * Parses `a=b, c!=d, e in (f,g), h notin (i), j, !k`. An empty text selects everything.
 * @throws ParseError code `label-selector`, with apimachinery's message.
 */
export function parseLabelSelector(text: string): Selector {
  if (text.length > maxLength) throw invalidSelector(`a label selector may not be longer than ${maxLength} characters`);
  const requirements = new Parser(text).parse();
  return requirements.length === 0 ? everything : new CompiledSelector(requirements);
}
