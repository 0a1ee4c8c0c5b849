import { ParseError } from './parse-error.ts';

export interface FieldRequirement {
  readonly field: string;
  readonly operator: '=' | '!=';
  readonly value: string;
}

/** A parsed field selector. Immutable; its requirements are all to be met. */
export interface FieldSelector {
  readonly requirements: readonly FieldRequirement[];
  readonly empty: boolean;
  /** `values` holds the value of every field that the resource supports; an absent one counts as ''. */
  matches(values: Readonly<Record<string, string>>): boolean;
  /** The value that the selector demands of `field`, for index look-ups; undefined when it demands none. */
  exact(field: string): string | undefined;
  toString(): string;
}

const refuse = (message: string) => new ParseError('field-selector', message);
const maxLength = 64 * 1024;

class Parsed implements FieldSelector {
  readonly requirements: readonly FieldRequirement[];
  constructor(requirements: readonly FieldRequirement[]) {
    this.requirements = requirements;
  }
  get empty() {
    return this.requirements.length === 0;
  }
  matches(values: Readonly<Record<string, string>>): boolean {
    for (const { field, operator, value } of this.requirements) {
      const actual = Object.hasOwn(values, field) ? values[field] : '';
      if ((actual === value) !== (operator === '=')) return false;
    }
    return true;
  }
  exact(field: string): string | undefined {
    return this.requirements.find((requirement) => requirement.field === field && requirement.operator === '=')?.value;
  }
  toString() {
    return this.requirements.map(({ field, operator, value }) => `${field}${operator}${escapeFieldValue(value)}`).join(',');
  }
}

/** Selects every object. */
export const everyField: FieldSelector = new Parsed([]);

export function escapeFieldValue(value: string): string {
  return value.replace(/[\\,=]/g, (c) => `\\${c}`);
}

function unescape(value: string): string {
  let result = '';
  for (let i = 0; i < value.length; i++) {
    const c = value.charAt(i);
    if (c === '\\') {
      const next = value.charAt(i + 1);
      if (next !== '\\' && next !== ',' && next !== '=') throw refuse(`invalid field selector: invalid escape sequence: \\${next}`);
      result += next;
      i++;
    } else if (c === ',' || c === '=') throw refuse(`invalid field selector: unescaped character in value: ${c.charCodeAt(0)}`);
    else result += c;
  }
  return result;
}

/** Splits at commas that no backslash precedes. */
const splitTerms = (text: string) => text.match(/(?:\\[\s\S]|[^\\,])+/g) ?? [];

/**
 * Parses `metadata.name=a,spec.nodeName!=b`; in values `\\`, `\,` and `\=` stand for the character. An empty text selects everything.
 * @throws ParseError code `field-selector`, with apimachinery's message.
 */
export function parseFieldSelector(text: string): FieldSelector {
  if (text.length > maxLength) throw refuse(`a field selector may not be longer than ${maxLength} characters`);
  if (text === '') return everyField;
  const requirements = splitTerms(text)
    .sort()
    .map((term): FieldRequirement => {
      // The first operator counts: fields hold none.
      const match = /^(.*?)(!=|==|=)(.*)$/s.exec(term);
      if (match === null) throw refuse(`invalid selector: '${text}'; can't understand '${term}'`);
      const [, field = '', operator, value = ''] = match;
      return { field, operator: operator === '!=' ? '!=' : '=', value: unescape(value) };
    });
  return requirements.length === 0 ? everyField : new Parsed(requirements);
}

/** The first field that is not among `supported`, as the message with which the server refuses it; undefined when all are. */
export function unsupportedField(selector: FieldSelector, supported: ReadonlySet<string>): string | undefined {
  const unknown = selector.requirements.find(({ field }) => !supported.has(field));
  return unknown && `field label not supported: ${unknown.field}`;
}
