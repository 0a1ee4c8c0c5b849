/**
 * Where numbers of a JSON text stand that are whole and yet written as floats, such as `1.0` or `1e3`: Go keeps them apart from integers.
 * In memory both are the same number, so that what depends on it is told of the places.
 */

const none: ReadonlySet<string> = new Set();
/** A number that may be such a one; also finds what looks so in strings. */
const suspect = /[:[,]\s*-?\d+(?:\.0+(?![\d.])|(?:\.\d+)?[eE])/;

/** The places in a text that is known to be JSON, as validation names them: `spec.list[0].n`. */
export function writtenFloats(text: string): ReadonlySet<string> {
  if (!suspect.test(text)) return none;
  const found = new Set<string>();
  const walk = new Walk(text, found);
  walk.value('');
  return found;
}

/** The tokens of JSON, spaces and punctuation with them. */
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
    const taken = this.#next;
    this.#next = this.#token.exec(this.#text)?.[1] ?? '';
    return taken;
  }

  value(path: string): void {
    if (this.#depth > maxNesting) return;
    const taken = this.#advance();
    if (taken === '{') this.#inside('}', () => this.#member(path));
    else if (taken === '[') {
      let index = 0;
      this.#inside(']', () => this.value(`${path}[${index++}]`));
    } else if (/^-?\d/.test(taken) && /[.eE]/.test(taken) && Number.isInteger(Number(taken))) this.#found.add(path);
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
