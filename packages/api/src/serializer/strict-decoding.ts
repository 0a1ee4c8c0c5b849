import { isObject } from '../json/json.ts';
import type { Schema } from '../schema/schema.ts';

/** The maximum number of strict decoding errors reported for one request. */
const maxErrors = 100;

/**
 * Returns the strict decoding errors of a text that JSON.parse accepts, in the order of the text: `unknown field "spec.x"`,
 * `duplicate field "spec.y"`. Does not descend into unknown fields.
 */
export function strictDecodingErrors(text: string, schema: Schema): string[] {
  const scan = new Scan(text);
  scan.value(schema, '');
  return [...scan.errors];
}

/** Returns the errors for keys that an object in JSON text sets twice, in the words and the order of Go's YAML library. */
export function jsonDuplicates(text: string): string[] {
  const scan = new Scan(text, true);
  scan.value(anyFields, '');
  return [...scan.errors];
}

/** As `strictDecodingErrors` for a decoded value, in which duplicates are lost. */
export function unknownFields(schema: Schema, value: unknown): string[] {
  const errors: string[] = [];
  const path: (string | number)[] = [];
  const visitChild = (at: Schema, node: unknown, key: string | number): void => {
    if (typeof node !== 'object' || node === null) return;
    path.push(key);
    visit(at, node);
    path.pop();
  };
  const visit = (at: Schema, node: object): void => {
    if (errors.length >= maxErrors) return;
    if (Array.isArray(node)) {
      const { items } = at;
      if (items !== undefined) for (let i = 0; i < node.length; i++) visitChild(items, node[i], i);
    } else if (isObject(node) && (at.properties ?? at.additionalProperties) !== undefined) {
      for (const key of Object.keys(node)) {
        const child = at.properties === undefined ? at.additionalProperties : at.properties.get(key);
        if (child === undefined) errors.push(`unknown field ${JSON.stringify(pathText([...path, key]))}`);
        else visitChild(child, node[key], key);
      }
    }
  };
  if (typeof value === 'object' && value !== null) visit(schema, value);
  return errors;
}

function pathText(path: readonly (string | number)[]): string {
  return path.map((part, i) => (typeof part === 'number' ? `[${part}]` : i === 0 ? part : `.${part}`)).join('');
}

const [quote, backslash, comma, openBrace, closeBrace, openBracket, closeBracket] = ['"', '\\', ',', '{', '}', '[', ']'].map((c) =>
  c.charCodeAt(0),
);

/** A schema that permits any JSON. */
export const anyFields: Schema = {
  type: 'object',
  get additionalProperties() {
    return anyFields;
  },
  get items() {
    return anyFields;
  },
};

/** Scans JSON text; assumes that it is well formed and not deeper than the limit of the parser. */
class Scan {
  readonly errors = new Set<string>();
  readonly #text: string;
  readonly #asYaml: boolean;
  #at = 0;
  #line = 1;
  constructor(text: string, asYaml = false) {
    this.#text = text;
    this.#asYaml = asYaml;
  }

  #space(): number {
    for (;;) {
      const c = this.#text.charCodeAt(this.#at);
      if (c === 0x0a) this.#line++;
      else if (c !== 0x20 && c !== 0x0d && c !== 0x09) return c;
      this.#at++;
    }
  }

  value(schema: Schema, path: string): void {
    const c = this.#space();
    if (c === openBrace) this.#object(schema, path);
    else if (c === openBracket) this.#array(schema, path);
    else if (c === quote) this.#string();
    else this.#scalar();
  }

  #string(): string {
    const start = this.#at++;
    let escaped = false;
    for (let c = this.#text.charCodeAt(this.#at); c !== quote; c = this.#text.charCodeAt(++this.#at)) {
      if (c === backslash) {
        escaped = true;
        this.#at++;
      }
    }
    this.#at++;
    return escaped ? (JSON.parse(this.#text.slice(start, this.#at)) as string) : this.#text.slice(start + 1, this.#at - 1);
  }

  #error(error: string): void {
    if (this.errors.size < maxErrors) this.errors.add(error);
  }

  /** Skips a value of any depth. */
  #skip(): void {
    let depth = 0;
    do {
      const c = this.#space();
      if (c === quote) this.#string();
      else {
        if (c === openBrace || c === openBracket) depth++;
        else if (c === closeBrace || c === closeBracket) depth--;
        else if (depth === 0) {
          this.#scalar();
          return;
        }
        this.#at++;
      }
    } while (depth > 0);
  }

  #scalar(): void {
    while (this.#at < this.#text.length && !',]} \n\r\t'.includes(this.#text.charAt(this.#at))) this.#at++;
  }

  #object({ properties, additionalProperties }: Schema, path: string): void {
    const seen = new Set<string>();
    this.#at++;
    while (this.#space() === quote) {
      const key = this.#string();
      const childPath = path === '' ? key : `${path}.${key}`;
      const child = properties === undefined ? additionalProperties : properties.get(key);
      const isDuplicate = seen.has(key);
      if (properties !== undefined && child === undefined) this.#error(`unknown field ${JSON.stringify(childPath)}`);
      else if (isDuplicate && !this.#asYaml) this.#error(`duplicate field ${JSON.stringify(childPath)}`);
      seen.add(key);
      this.#space();
      this.#at++; // the colon
      this.#space();
      const line = this.#line;
      if (child === undefined) this.#skip();
      else this.value(child, childPath);
      if (isDuplicate && this.#asYaml) this.#error(`  line ${line}: key ${JSON.stringify(key)} already set in map`);
      if (this.#space() === comma) this.#at++;
    }
    this.#at++;
  }

  #array({ items }: Schema, path: string): void {
    this.#at++;
    for (let i = 0; this.#space() !== closeBracket; i++) {
      if (items === undefined) this.#skip();
      else this.value(items, `${path}[${i}]`);
      if (this.#space() === comma) this.#at++;
    }
    this.#at++;
  }
}
