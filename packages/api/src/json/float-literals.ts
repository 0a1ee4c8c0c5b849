/**
 * Finds numbers of a JSON text that are whole but written as floats, such as `1.0` or `1e3`. Go decodes them as floats, not integers; in
 * JavaScript both are the same number, so code that depends on the difference receives their paths.
 */

const none: ReadonlySet<string> = new Set();
/** Matches texts that may contain such a number; also matches inside strings. */
const suspect = /[:[,]\s*-?\d+(?:\.0+(?![\d.])|(?:\.\d+)?[eE])/;

/** Returns the paths of whole numbers that are written as floats, in the notation of validation (`spec.list[0].n`). The text must be valid JSON. */
export function floatLiteralPaths(text: string): ReadonlySet<string> {
  if (!suspect.test(text)) return none;
  const found = new Set<string>();
  const walk = new Walk(text, found);
  walk.value('');
  return found;
}

/** The tokens of JSON with the white space around them. */
const token = /\s*("[^"\\]*(?:\\.[^"\\]*)*"|[^\s"[\]{},:]+|[[\]{},:])\s*/gy;
const maxNesting = 200;

class Walk {
  readonly #text: string;
  readonly #found: Set<string>;
  readonly #token = new RegExp(token);
  #depth = 0;
  #next = '';

  constructor(text: string, found: Set<string>) {
    this.#text = text;
    this.#found = found;
    this.#advance();
  }

  #advance(): string {
    const consumed = this.#next;
    this.#next = this.#token.exec(this.#text)?.[1] ?? '';
    return consumed;
  }

  value(path: string): void {
    if (this.#depth > maxNesting) return;
    const consumed = this.#advance();
    if (consumed === '{') this.#inside('}', () => this.#member(path));
    else if (consumed === '[') {
      let index = 0;
      this.#inside(']', () => this.value(`${path}[${index++}]`));
    } else if (/^-?\d/.test(consumed) && /[.eE]/.test(consumed) && Number.isInteger(Number(consumed))) this.#found.add(path);
  }

  #member(path: string): void {
    const name = JSON.parse(this.#advance()) as string;
    this.#advance(); // the colon
    this.value(path === '' ? name : `${path}.${name}`);
  }

  #inside(end: string, each: () => void): void {
    this.#depth++;
    while (this.#next !== end && this.#next !== '' && this.#depth <= maxNesting) {
      each();
      if (this.#next === ',') this.#advance();
    }
    this.#advance();
    this.#depth--;
  }
}
