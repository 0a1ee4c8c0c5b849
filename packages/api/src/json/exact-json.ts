/**
 * JSON with 64-bit integers as in Go: an integer that fits an int64 but not a double is a bigint, every other number a number. A bigint is
 * never a safe integer, so equal values have equal types.
 */

const shared = Symbol.for('oarlock:bigint-detection');

declare global {
  interface BigInt {
    toJSON(): unknown;
  }
}

/** `met` is true after a call of JSON.stringify has met a bigint. */
interface BigintDetection {
  met: boolean;
}

/** A plugin may bring its own copy of this package: all copies in a process share one state. */
const detection = detectBigints(globalThis as { [shared]?: BigintDetection });

/**
 * JSON.stringify without support for bigints writes the nearest double; stringifyExact uses all digits. A library may assign another method, which then
 * decides what JSON.stringify writes; stringifyExact does not call it.
 */
function detectBigints(global: { [shared]?: BigintDetection }): BigintDetection {
  const present = global[shared];
  if (present !== undefined) return present;
  const state: BigintDetection = { met: false };
  let method = function (this: bigint): unknown {
    return Number(this);
  };
  // oxlint-disable-next-line no-extend-native -- JSON.stringify looks for it there, and nowhere else
  Object.defineProperty(BigInt.prototype, 'toJSON', {
    get() {
      state.met = true;
      return method;
    },
    set(assigned: typeof method) {
      method = assigned;
    },
  });
  global[shared] = state;
  return state;
}

/** Matches texts that may contain an integer beyond the safe integers, which has at least 16 digits. */
const long = /\d{16}/;

/** The nesting depth above which integers are parsed as doubles. All callers reject values that are nested more deeply. */
const maxNesting = 200;

/** Parses JSON like `JSON.parse`, but preserves 64-bit integers as bigint. @throws SyntaxError if the text is not JSON */
export function parseExact(text: string): unknown {
  const value = JSON.parse(text) as unknown;
  if (!long.test(text)) return value;
  const reader = new Reader(text);
  const exact = reader.value(0);
  return reader.tooDeep ? value : exact;
}

/** Serializes a value like `JSON.stringify`, but writes all digits of 64-bit integers. `indent` is the number of spaces. */
export function stringifyExact(value: unknown, indent = 0): string {
  detection.met = false;
  const text = JSON.stringify(value, undefined, indent);
  return detection.met ? exactly(value, indent, '\n') : text;
}

/** Serializes one value. `line` is a line break followed by the current indentation. */
function exactly(value: unknown, indent: number, line: string): string {
  if (typeof value === 'bigint') return value.toString();
  if (typeof value !== 'object' || value === null) return (JSON.stringify(value) as string | undefined) ?? 'null';
  const inner = line + ' '.repeat(indent);
  const list = (parts: readonly string[], [open, close]: readonly [string, string]) => {
    if (parts.length === 0) return open + close;
    return indent === 0 ? `${open}${parts.join(',')}${close}` : `${open}${inner}${parts.join(`,${inner}`)}${line}${close}`;
  };
  if (Array.isArray(value))
    return list(
      value.map((item) => exactly(item, indent, inner)),
      ['[', ']'],
    );
  const members = Object.entries(value).filter(([, member]) => member !== undefined);
  const colon = indent === 0 ? ':' : ': ';
  return list(
    members.map(([key, member]) => `${JSON.stringify(key)}${colon}${exactly(member, indent, inner)}`),
    ['{', '}'],
  );
}

const int64 = [-(2n ** 63n), 2n ** 63n - 1n] as const;

/** Returns the integer as number or bigint, or undefined if it does not fit an int64. */
export function exactInteger(value: bigint): number | bigint | undefined {
  const near = Number(value);
  if (Number.isSafeInteger(near)) return near;
  return value >= int64[0] && value <= int64[1] ? value : undefined;
}

/** Returns the value of a JSON number. */
function numberOf(token: string): number | bigint {
  const near = Number(token);
  if (Number.isSafeInteger(near) || !/^-?\d+$/.test(token)) return near;
  return exactInteger(BigInt(token)) ?? near;
}

const [quote, backslash, comma, colon, openBrace, closeBrace, openBracket, closeBracket] = ['"', '\\', ',', ':', '{', '}', '[', ']'].map(
  (c) => c.charCodeAt(0),
);

/** A JSON parser for text that is known to be valid JSON. */
class Reader {
  tooDeep = false;
  readonly #text: string;
  #at = 0;
  constructor(text: string) {
    this.#text = text;
  }

  /** Returns the next character that is not white space. */
  #next(): number {
    for (;;) {
      const c = this.#text.charCodeAt(this.#at);
      if (c > 0x20) return c;
      this.#at++;
    }
  }

  #ends(end: number | undefined): boolean {
    const c = this.#next();
    if (c === comma || c === colon || c === end) this.#at++;
    return c === end;
  }

  value(depth: number): unknown {
    if (depth > maxNesting) this.tooDeep = true;
    if (this.tooDeep) return undefined;
    const c = this.#next();
    if (c === openBrace) return this.#object(depth + 1);
    if (c === openBracket) return this.#array(depth + 1);
    if (c === quote) return this.#string();
    const start = this.#at;
    while (this.#at < this.#text.length && !',]} \n\r\t'.includes(this.#text.charAt(this.#at))) this.#at++;
    const token = this.#text.slice(start, this.#at);
    return token === 'true' ? true : token === 'false' ? false : token === 'null' ? null : numberOf(token);
  }

  #string(): string {
    const start = this.#at++;
    for (let c = this.#text.charCodeAt(this.#at); c !== quote; c = this.#text.charCodeAt(++this.#at)) if (c === backslash) this.#at++;
    return JSON.parse(this.#text.slice(start, ++this.#at)) as string;
  }

  #object(depth: number): object {
    const object: Record<string, unknown> = {};
    this.#at++;
    if (this.#ends(closeBrace)) return object;
    do {
      this.#next();
      const key = this.#string();
      this.#ends(colon);
      const value = this.value(depth);
      // plain assignment would set the prototype, and the check for this key would miss it
      if (key === '__proto__') Object.defineProperty(object, key, { value, enumerable: true, configurable: true, writable: true });
      else object[key] = value;
    } while (!this.tooDeep && !this.#ends(closeBrace));
    return object;
  }

  #array(depth: number): unknown[] {
    const items: unknown[] = [];
    this.#at++;
    if (this.#ends(closeBracket)) return items;
    do items.push(this.value(depth));
    while (!this.tooDeep && !this.#ends(closeBracket));
    return items;
  }
}
