/**
 * Returns the error message of Go's JSON decoder for a text that is not JSON, which names the first invalid character; undefined for valid JSON.
 * Scans byte by byte, as Go's scanner does.
 */
export function goSyntaxError(text: string): string | undefined {
  const fault = new Scanner(Buffer.from(text)).run();
  return fault === end ? 'unexpected end of JSON input' : fault;
}

const end = Symbol('the text ends too early');
type Fault = string | typeof end | undefined;

/** Go's description of the position after a value, by the innermost container. */
const contexts = { object: 'after object key:value pair', array: 'after array element', none: 'after top-level value' } as const;

const literals: Readonly<Record<string, string>> = { t: 'true', f: 'false', n: 'null' };
const isSpace = (c: string) => c === ' ' || c === '\t' || c === '\r' || c === '\n';
const isDigit = (c: string) => c >= '0' && c <= '9' && c.length === 1;

class Scanner {
  readonly #bytes: Buffer;
  readonly #open: ('object' | 'array')[] = [];
  #at = 0;
  /** The token that may follow. This explicit state replaces recursion. */
  #next: 'value' | 'member' | 'after' = 'value';
  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  run(): Fault {
    do {
      const fault = this.#next === 'value' ? this.#value() : this.#next === 'member' ? this.#member() : this.#after();
      if (fault !== undefined) return fault;
    } while (this.#next !== 'after' || this.#open.length > 0);
    this.#space();
    return this.#peek() === '' ? undefined : this.#wrong(contexts.none);
  }

  /** Returns one byte as a character; '' at the end. */
  #peek(): string {
    return this.#at < this.#bytes.length ? String.fromCharCode(this.#bytes[this.#at] as number) : '';
  }
  #space(): void {
    while (isSpace(this.#peek())) this.#at++;
  }
  #wrong(where: string): Fault {
    const c = this.#peek();
    return c === '' ? end : `invalid character ${quoted(c)} ${where}`;
  }
  #digits(): boolean {
    const from = this.#at;
    while (isDigit(this.#peek())) this.#at++;
    return this.#at > from;
  }

  /** Scans a value. Of an object or list, scans only the opening bracket and the start of the first member or item. */
  #value(): Fault {
    this.#space();
    const c = this.#peek();
    if (c === '{' || c === '[') return this.#opened(c);
    this.#next = 'after';
    if (c === '"') return this.#string();
    if (c === '-' || isDigit(c)) return this.#number();
    const literal = Object.hasOwn(literals, c) ? literals[c] : undefined;
    return literal === undefined ? this.#wrong('looking for beginning of value') : this.#literal(literal);
  }

  #opened(c: '{' | '['): Fault {
    this.#at++;
    this.#space();
    if (this.#peek() === (c === '{' ? '}' : ']')) {
      this.#at++;
      this.#next = 'after';
      return undefined;
    }
    this.#open.push(c === '{' ? 'object' : 'array');
    this.#next = c === '{' ? 'member' : 'value';
    return undefined;
  }

  #member(): Fault {
    this.#space();
    if (this.#peek() !== '"') return this.#wrong('looking for beginning of object key string');
    const fault = this.#string();
    if (fault !== undefined) return fault;
    this.#space();
    if (this.#peek() !== ':') return this.#wrong('after object key');
    this.#at++;
    this.#next = 'value';
    return undefined;
  }

  #after(): Fault {
    const context = this.#open.at(-1) ?? 'object';
    this.#space();
    const c = this.#peek();
    if (c === ',') {
      this.#at++;
      this.#next = context === 'object' ? 'member' : 'value';
      return undefined;
    }
    if (c !== (context === 'object' ? '}' : ']')) return this.#wrong(contexts[context]);
    this.#at++;
    this.#open.pop();
    return undefined;
  }

  #string(): Fault {
    for (;;) {
      this.#at++;
      const c = this.#peek();
      if (c === '' || c < ' ') return this.#wrong('in string literal');
      if (c === '"') break;
      if (c !== '\\') continue;
      this.#at++;
      const escaped = this.#peek();
      if (escaped === 'u') {
        for (let i = 0; i < 4; i++) {
          this.#at++;
          if (!/^[\da-fA-F]$/.test(this.#peek())) return this.#wrong('in \\u hexadecimal character escape');
        }
      } else if (escaped === '' || !'bfnrt\\/"'.includes(escaped)) return this.#wrong('in string escape code');
    }
    this.#at++;
    return undefined;
  }

  #number(): Fault {
    if (this.#peek() === '-') this.#at++;
    if (this.#peek() === '0') this.#at++;
    else if (!this.#digits()) return this.#wrong('in numeric literal');
    if (this.#peek() === '.') {
      this.#at++;
      if (!this.#digits()) return this.#wrong('after decimal point in numeric literal');
    }
    if (this.#peek().toLowerCase() !== 'e') return undefined;
    this.#at++;
    if (this.#peek() === '+' || this.#peek() === '-') this.#at++;
    return this.#digits() ? undefined : this.#wrong('in exponent of numeric literal');
  }

  #literal(word: string): Fault {
    for (const expected of word) {
      if (this.#peek() !== expected) return this.#wrong(`in literal ${word} (expecting '${expected}')`);
      this.#at++;
    }
    return undefined;
  }
}

/** Quotes one character as Go's scanner does. */
function quoted(c: string): string {
  if (c === "'") return `'\\''`;
  if (c === '"') return `'"'`;
  const code = c.charCodeAt(0);
  const short = { 7: '\\a', 8: '\\b', 9: '\\t', 10: '\\n', 11: '\\v', 12: '\\f', 13: '\\r', 92: '\\\\' }[code];
  if (short !== undefined) return `'${short}'`;
  const printable = (code >= 0x20 && code < 0x7f) || (code > 0xa0 && code !== 0xad);
  return printable
    ? `'${c}'`
    : `'${code < 0x80 ? `\\x${code.toString(16).padStart(2, '0')}` : `\\u${code.toString(16).padStart(4, '0')}`}'`;
}

/** Returns Go's name for the kind of a JSON value, for type mismatches. */
export function goKind(value: unknown): string {
  if (Array.isArray(value)) return 'array';
  return typeof value === 'boolean' ? 'bool' : typeof value === 'bigint' ? 'number' : typeof value;
}
