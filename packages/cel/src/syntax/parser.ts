import type { Entry, Expr } from './ast.ts';
import { CelSyntaxError } from './issue.ts';
import { tokens, type Token } from './lexer.ts';
import { expandMacro, type MacroOptions } from './macros.ts';
import { keywords, reservedWords } from './reserved-words.ts';
import { Double, codePoints, doubleOf } from '../values/value.ts';

export const maxSourceSize = 100_000;
/** The maximum nesting depth of an expression. */
export const maxDepth = 250;

const relations: ReadonlySet<string> = new Set(['<', '<=', '>', '>=', '==', '!=', 'in']);
const expected = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";

/** Parses an expression and expands its macros. @throws CelSyntaxError if the expression is malformed or nested too deeply */
export function parse(source: string, macros: MacroOptions): Expr {
  if (source.length > maxSourceSize && codePoints(source) > maxSourceSize)
    throw new CelSyntaxError(0, `expression code point size exceeds limit: size: ${codePoints(source)}, limit ${maxSourceSize}`);
  return new Parser(tokens(source), macros).whole();
}

class Parser {
  readonly #tokens: readonly Token[];
  readonly #macros: MacroOptions;
  #next = 0;
  #depth = 0;
  readonly #depths = new WeakMap<Expr, number>();

  constructor(all: readonly Token[], macros: MacroOptions) {
    this.#tokens = all;
    this.#macros = macros;
  }

  whole(): Expr {
    const expr = this.#expr();
    const { kind, at, text } = this.#peek();
    if (kind !== 'end') throw new CelSyntaxError(at, `Syntax error: mismatched input '${text}' expecting <EOF>`);
    return expr;
  }

  #peek(): Token {
    return this.#tokens[this.#next] as Token;
  }
  #take(): Token {
    return this.#tokens[this.#next++] as Token;
  }
  #is(text: string): boolean {
    const token = this.#peek();
    return token.text === text && (token.kind === 'punct' || text === 'in');
  }
  #accept(text: string): Token | undefined {
    return this.#is(text) ? this.#take() : undefined;
  }
  #expect(text: string): Token {
    const token = this.#accept(text);
    if (token === undefined) throw this.#mismatch(`'${text}'`);
    return token;
  }
  #mismatch(wanted: string): CelSyntaxError {
    const { at, text } = this.#peek();
    return new CelSyntaxError(at, `Syntax error: mismatched input '${text}' expecting ${wanted}`);
  }

  /**
   * Checks and records the depth of a chain such as `a.b.c` or `a + b + c`, whose nodes nest although the parser does not recurse.
   * @throws CelSyntaxError if the depth exceeds `maxDepth`
   */
  #grown<E extends Expr>(expr: E, ...parts: readonly Expr[]): E {
    let depth = 0;
    for (const part of parts) depth = Math.max(depth, this.#depths.get(part) ?? 0);
    if (depth >= maxDepth) throw new CelSyntaxError(expr.at, `expression recursion limit exceeded: ${maxDepth}`);
    this.#depths.set(expr, depth + 1);
    return expr;
  }

  #expr(): Expr {
    if (++this.#depth > maxDepth) throw new CelSyntaxError(this.#peek().at, `expression recursion limit exceeded: ${maxDepth}`);
    const condition = this.#logic('||');
    const question = this.#accept('?');
    let expr = condition;
    if (question !== undefined) {
      const then = this.#logic('||');
      this.#expect(':');
      const otherwise = this.#expr();
      expr = this.#grown({ kind: 'call', at: question.at, fn: '_?_:_', args: [condition, then, otherwise] }, condition, then, otherwise);
    }
    this.#depth--;
    return expr;
  }

  #logic(op: '||' | '&&'): Expr {
    const operand = () => (op === '||' ? this.#logic('&&') : this.#relation());
    const first = operand();
    const token = this.#accept(op);
    if (token === undefined) return first;
    const terms = [first];
    do terms.push(operand());
    while (this.#accept(op) !== undefined);
    return this.#grown({ kind: 'logic', at: token.at, op: `_${op}_`, terms }, ...terms);
  }

  #binary(operand: () => Expr, operators: (text: string) => string | undefined): Expr {
    let left = operand();
    for (;;) {
      const token = this.#peek();
      const fn = token.kind === 'punct' || token.text === 'in' ? operators(token.text) : undefined;
      if (fn === undefined) return left;
      this.#next++;
      const right = operand();
      left = this.#grown({ kind: 'call', at: token.at, fn, args: [left, right] }, left, right);
    }
  }
  #relation(): Expr {
    return this.#binary(
      () => this.#sum(),
      (text) => (relations.has(text) ? (text === 'in' ? '@in' : `_${text}_`) : undefined),
    );
  }
  #sum(): Expr {
    return this.#binary(
      () => this.#product(),
      (text) => (text === '+' || text === '-' ? `_${text}_` : undefined),
    );
  }
  #product(): Expr {
    return this.#binary(
      () => this.#unary(),
      (text) => (text === '*' || text === '/' || text === '%' ? `_${text}_` : undefined),
    );
  }

  #unary(): Expr {
    const { at, text } = this.#peek();
    if (!this.#is('!') && !this.#is('-')) return this.#member();
    let count = 0;
    while (this.#accept(text) !== undefined) count++;
    if (text === '-' && count === 1 && this.#peek().kind === 'number' && this.#tokens[this.#next + 1]?.text !== '.') {
      const value = negated(this.#take());
      if (value !== undefined) return this.#suffixes({ kind: 'const', at, value });
      this.#next--;
    }
    if (this.#is('!') || this.#is('-')) {
      if (++this.#depth > maxDepth) throw new CelSyntaxError(at, `expression recursion limit exceeded: ${maxDepth}`);
      const inner = this.#unary();
      this.#depth--;
      return this.#prefixed(text, at, count, inner);
    }
    return this.#prefixed(text, at, count, this.#member());
  }
  #prefixed(text: string, at: number, count: number, operand: Expr): Expr {
    return count % 2 === 0 ? operand : this.#grown({ kind: 'call', at, fn: text === '!' ? '!_' : '-_', args: [operand] }, operand);
  }

  #member(): Expr {
    return this.#suffixes(this.#primary());
  }

  #suffixes(start: Expr): Expr {
    let expr = start;
    for (;;) {
      const dot = this.#accept('.');
      if (dot !== undefined) {
        const optional = this.#accept('?') !== undefined;
        const name = this.#field();
        const open = optional ? undefined : this.#accept('(');
        if (open === undefined) {
          expr = this.#grown({ kind: 'select', at: dot.at, operand: expr, field: name.text, test: false, optional }, expr);
        } else {
          const args = this.#args(')');
          expr = this.#called(open.at, name.text, args, expr);
        }
        continue;
      }
      const open = this.#accept('[');
      if (open === undefined) return expr;
      const optional = this.#accept('?') !== undefined;
      const index = this.#expr();
      this.#expect(']');
      expr = this.#grown({ kind: 'call', at: open.at, fn: optional ? '_[?_]' : '_[_]', args: [expr, index] }, expr, index);
    }
  }

  #called(at: number, fn: string, args: readonly Expr[], target?: Expr): Expr {
    const parts = target === undefined ? args : [target, ...args];
    const call = { at, fn, ...(target && { target }), args };
    return this.#grown(expandMacro(call, this.#macros) ?? { kind: 'call', ...call }, ...parts);
  }

  #field(): Token {
    const token = this.#peek();
    if (token.kind !== 'ident' || keywords.has(token.text)) throw this.#mismatch('IDENTIFIER');
    return this.#take();
  }

  #args(end: string): Expr[] {
    const args: Expr[] = [];
    if (this.#accept(end) !== undefined) return args;
    do args.push(this.#expr());
    while (this.#accept(',') !== undefined);
    this.#expect(end);
    return args;
  }

  #primary(): Expr {
    const token = this.#peek();
    const { kind, at, text } = token;
    if (kind === 'number' || kind === 'literal') {
      this.#next++;
      const value = token.value ?? null;
      if (value === 2n ** 63n) throw new CelSyntaxError(at, 'invalid int literal');
      return { kind: 'const', at, value };
    }
    if (this.#accept('(') !== undefined) {
      const expr = this.#expr();
      this.#expect(')');
      return expr;
    }
    if (this.#accept('[') !== undefined) return this.#list(at);
    if (this.#accept('{') !== undefined) return this.#map(at);
    const rooted = this.#accept('.') !== undefined;
    if (this.#peek().kind !== 'ident') throw this.#mismatch(expected);
    return this.#named(at, this.#take().text, rooted, text);
  }

  #named(at: number, name: string, rooted: boolean, first: string): Expr {
    if (!rooted) {
      if (name === 'true' || name === 'false') return { kind: 'const', at, value: name === 'true' };
      if (name === 'null') return { kind: 'const', at, value: null };
      if (name === 'in') throw new CelSyntaxError(at, `Syntax error: mismatched input '${first}' expecting ${expected}`);
    }
    if (reservedWords.has(name)) throw new CelSyntaxError(at, `reserved identifier: ${name}`);
    const open = this.#accept('(');
    if (open !== undefined) return this.#called(open.at, name, this.#args(')'));
    const struct = this.#structName(name);
    if (struct !== undefined) return this.#struct(struct.at, struct.name);
    return { kind: 'ident', at, name };
  }

  /** Returns the struct name `a.b.C` if a `{` follows, which starts a struct literal; otherwise undefined. */
  #structName(name: string): { readonly at: number; readonly name: string } | undefined {
    let ahead = this.#next;
    let whole = name;
    while (this.#tokens[ahead]?.text === '.' && this.#tokens[ahead + 1]?.kind === 'ident') {
      whole += `.${this.#tokens[ahead + 1]?.text}`;
      ahead += 2;
    }
    const open = this.#tokens[ahead];
    if (open?.kind !== 'punct' || open.text !== '{') return undefined;
    this.#next = ahead + 1;
    return { at: open.at, name: whole };
  }

  #list(at: number): Expr {
    const elements: Expr[] = [];
    const optional = new Set<number>();
    while (!this.#is(']')) {
      if (this.#accept('?') !== undefined) optional.add(elements.length);
      elements.push(this.#expr());
      if (this.#accept(',') === undefined) break;
    }
    this.#expect(']');
    return this.#grown({ kind: 'list', at, elements, optional }, ...elements);
  }

  #map(at: number): Expr {
    const entries: Entry[] = [];
    while (!this.#is('}')) {
      const optional = this.#accept('?') !== undefined;
      const key = this.#expr();
      const colon = this.#expect(':');
      entries.push({ at: colon.at, key, value: this.#expr(), optional });
      if (this.#accept(',') === undefined) break;
    }
    this.#expect('}');
    return this.#grown({ kind: 'map', at, entries }, ...entries.flatMap(({ key, value }) => [key, value]));
  }

  #struct(at: number, name: string): Expr {
    const fields: { readonly at: number; readonly name: string; readonly value: Expr; readonly optional: boolean }[] = [];
    while (!this.#is('}')) {
      const optional = this.#accept('?') !== undefined;
      const field = this.#field();
      const colon = this.#expect(':');
      fields.push({ at: colon.at, name: field.text, value: this.#expr(), optional });
      if (this.#accept(',') === undefined) break;
    }
    this.#expect('}');
    return this.#grown({ kind: 'struct', at, name, fields }, ...fields.map(({ value }) => value));
  }
}

function negated({ value }: Token) {
  if (typeof value === 'bigint') return -value;
  if (value instanceof Double) return doubleOf(-value.value);
  if (typeof value !== 'number') return undefined;
  return value === 0 ? 0 : -value;
}
