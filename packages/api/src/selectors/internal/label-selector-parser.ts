import { invalid } from '../../field/field-error.ts';
import { isQualifiedName } from '../../values/names.ts';
import { ParseError } from '../../values/parse-error.ts';
import { checkRequirement, invalidSelector, type LabelOperator, type LabelRequirement } from './label-requirement.ts';

type Token = 'id' | 'in' | 'notin' | 'end' | 'error' | ')' | ',' | '!' | '==' | '=' | '>' | '<' | '!=' | '(';
interface Item {
  readonly token: Token;
  readonly text: string;
}
const symbols: ReadonlySet<string> = new Set([')', ',', '!', '==', '=', '>', '<', '!=', '(']);

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

/** Parses the requirements of a label selector. @throws ParseError code `label-selector`, with apimachinery's message. */
export const parseRequirements = (text: string): readonly LabelRequirement[] => new Parser(text).parse();
