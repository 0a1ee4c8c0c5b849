import type { LabelSelector } from '../generated/types/meta-v1.ts';
import { parseInt64 } from '../values/int64.ts';
import { checkRequirement, invalidSelector, type LabelOperator, type LabelRequirement } from './internal/label-requirement.ts';
import { parseRequirements } from './internal/label-selector-parser.ts';

export type { LabelOperator, LabelRequirement } from './internal/label-requirement.ts';
const maxLength = 64 * 1024;

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

/**
 * All requirements of one key. Rules are found by key, so that the cost of a match follows from the number of labels, not of requirements: a selector
 * with thousands of requirements is matched with every object of a list.
 */
class KeyRule {
  /** True if the label must exist. */
  required = false;
  #forbidden = false;
  #allowed: ReadonlySet<string> | undefined;
  readonly #denied = new Set<string>();
  #above: bigint | undefined;
  #below: bigint | undefined;

  add({ operator, values }: LabelRequirement): void {
    this.required ||= !absentMatches.has(operator);
    switch (operator) {
      case '=':
      case '==':
      case 'in':
        this.#allowed = new Set(values.filter((value) => this.#allowed?.has(value) !== false));
        return;
      case '!=':
      case 'notin':
        for (const value of values) this.#denied.add(value);
        return;
      case '!':
        this.#forbidden = true;
        return;
      case 'gt':
      case 'lt':
        this.#bound(operator, parseInt64(values[0] ?? ''));
        return;
      case 'exists':
    }
  }

  /** Returns true if an existing label may have the value. */
  allows(value: string): boolean {
    if (this.#forbidden || this.#allowed?.has(value) === false || this.#denied.has(value)) return false;
    if (this.#above === undefined && this.#below === undefined) return true;
    const number = parseInt64(value);
    return (
      number !== undefined && (this.#above === undefined || number > this.#above) && (this.#below === undefined || number < this.#below)
    );
  }

  #bound(operator: 'gt' | 'lt', bound: bigint | undefined): void {
    // no number is greater or less than another text
    if (bound === undefined) this.#forbidden = true;
    else if (operator === 'gt') this.#above = this.#above === undefined || bound > this.#above ? bound : this.#above;
    else this.#below = this.#below === undefined || bound < this.#below ? bound : this.#below;
  }
}
/** The operators that match an object without the label. */
const absentMatches: ReadonlySet<LabelOperator> = new Set(['!', '!=', 'notin']);
/** The number of requirements up to which evaluating each is cheaper than finding rules by key. */
const fewRequirements = 16;

/** Returns a function that matches labels in a time that follows from their number. */
function compileRules(requirements: readonly LabelRequirement[]): (labels: Labels) => boolean {
  const rules = new Map<string, KeyRule>();
  for (const requirement of requirements) {
    const rule = rules.get(requirement.key) ?? new KeyRule();
    rules.set(requirement.key, rule);
    rule.add(requirement);
  }
  const required = [...rules.keys()].filter((key) => rules.get(key)?.required);
  // fails at the first key that is absent
  return (labels) =>
    required.every((key) => has(labels, key)) && Object.keys(labels).every((key) => rules.get(key)?.allows(labels[key] ?? '') !== false);
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
    this.#predicates =
      requirements.length <= fewRequirements ? this.requirements.map(compileRequirement) : [compileRules(this.requirements)];
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

/**
 * Parses `a=b, c!=d, e in (f,g), h notin (i), j, !k`. An empty text selects everything.
 * @throws ParseError code `label-selector`, with apimachinery's message.
 */
export function parseLabelSelector(text: string): Selector {
  if (text.length > maxLength) throw invalidSelector(`a label selector may not be longer than ${maxLength} characters`);
  const requirements = parseRequirements(text);
  return requirements.length === 0 ? everything : new CompiledSelector(requirements);
}
