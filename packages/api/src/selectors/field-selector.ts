import { ParseError } from '../values/parse-error.ts';

export interface FieldRequirement {
  readonly field: string;
  readonly operator: '=' | '!=';
  readonly value: string;
}

/** A parsed field selector. Immutable; all requirements must match. */
export interface FieldSelector {
  readonly requirements: readonly FieldRequirement[];
  readonly empty: boolean;
  /** Returns true if all requirements match. `values` contains the value of every field that the resource supports; an absent field counts as ''. */
  matches(values: Readonly<Record<string, string>>): boolean;
  /** Returns the value that the selector requires for `field`, for index lookups; undefined if any value can match. */
  requiresExactMatch(field: string): string | undefined;
  toString(): string;
}

const invalidSelector = (message: string) => new ParseError('field-selector', message);
const maxLength = 64 * 1024;

/**
 * Returns one predicate for each field, so that the cost of a match follows from the number of fields, not of requirements: a selector with thousands of
 * requirements is matched with every object of a list.
 */
export function predicatesByField(requirements: readonly FieldRequirement[]): ReadonlyMap<string, (value: string) => boolean> {
  const rules = new Map<string, { required: string | undefined; never: boolean; readonly denied: Set<string> }>();
  for (const { field, operator, value } of requirements) {
    const rule = rules.get(field) ?? { required: undefined, never: false, denied: new Set<string>() };
    rules.set(field, rule);
    if (operator === '!=') rule.denied.add(value);
    else {
      rule.never ||= rule.required !== undefined && rule.required !== value;
      rule.required = value;
    }
  }
  return new Map(
    [...rules].map(([field, { required, never, denied }]) => [
      field,
      (value) => !never && (required === undefined || required === value) && !denied.has(value),
    ]),
  );
}

class ParsedFieldSelector implements FieldSelector {
  readonly requirements: readonly FieldRequirement[];
  readonly #predicates: ReadonlyMap<string, (value: string) => boolean>;
  constructor(requirements: readonly FieldRequirement[]) {
    this.requirements = requirements;
    this.#predicates = predicatesByField(requirements);
  }
  get empty() {
    return this.requirements.length === 0;
  }
  matches(values: Readonly<Record<string, string>>): boolean {
    for (const [field, allows] of this.#predicates)
      if (!allows((Object.hasOwn(values, field) ? values[field] : undefined) ?? '')) return false;
    return true;
  }
  requiresExactMatch(field: string): string | undefined {
    return this.requirements.find((requirement) => requirement.field === field && requirement.operator === '=')?.value;
  }
  toString() {
    return this.requirements.map(({ field, operator, value }) => `${field}${operator}${escapeFieldValue(value)}`).join(',');
  }
}

/** The field selector that selects every object. */
export const everythingFieldSelector: FieldSelector = new ParsedFieldSelector([]);

export function escapeFieldValue(value: string): string {
  return value.replace(/[\\,=]/g, (c) => `\\${c}`);
}

function unescape(value: string): string {
  let result = '';
  for (let i = 0; i < value.length; i++) {
    const c = value.charAt(i);
    if (c === '\\') {
      const next = value.charAt(i + 1);
      if (next !== '\\' && next !== ',' && next !== '=')
        throw invalidSelector(`invalid field selector: invalid escape sequence: \\${next}`);
      result += next;
      i++;
    } else if (c === ',' || c === '=') throw invalidSelector(`invalid field selector: unescaped character in value: ${c.charCodeAt(0)}`);
    else result += c;
  }
  return result;
}

/** Splits a field selector at commas that no backslash precedes. */
const splitTerms = (text: string) => text.match(/(?:\\[\s\S]|[^\\,])+/g) ?? [];

/**
 * Parses `metadata.name=a,spec.nodeName!=b`; in values `\\`, `\,` and `\=` are escapes. An empty text selects everything.
 * @throws ParseError code `field-selector`, with apimachinery's message.
 */
export function parseFieldSelector(text: string): FieldSelector {
  if (text.length > maxLength) throw invalidSelector(`a field selector may not be longer than ${maxLength} characters`);
  if (text === '') return everythingFieldSelector;
  const requirements = splitTerms(text)
    .sort()
    .map((term): FieldRequirement => {
      // The first operator separates: field names contain none.
      const match = /^(.*?)(!=|==|=)(.*)$/s.exec(term);
      if (match === null) throw invalidSelector(`invalid selector: '${text}'; can't understand '${term}'`);
      const [, field = '', operator, value = ''] = match;
      return { field, operator: operator === '!=' ? '!=' : '=', value: unescape(value) };
    });
  return requirements.length === 0 ? everythingFieldSelector : new ParsedFieldSelector(requirements);
}

/** Returns Kubernetes' error message for the first field that is not in `supported`; undefined if all are. */
export function unsupportedField(selector: FieldSelector, supported: ReadonlySet<string>): string | undefined {
  const unknown = selector.requirements.find(({ field }) => !supported.has(field));
  return unknown && `field label not supported: ${unknown.field}`;
}
