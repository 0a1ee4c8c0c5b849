export type Quote = '"' | "'";

/** Where the caret is in a value of flow style, such as `{ name: web, ports: [80` or JSON. */
export interface FlowPosition {
  /** The keys from the outermost bracket to the mapping or list that contains the caret; `[]` stands for an item of a list. */
  readonly path: readonly string[];
  readonly key: string | undefined;
  /** The text before the caret, without an opening quote. */
  readonly prefix: string;
  /** The quote that is open at the caret. */
  readonly quote?: Quote;
  readonly from: number;
  readonly to: number;
  readonly siblings: readonly string[];
  readonly style: 'flow-mapping' | 'flow-list';
}

export interface FlowScan {
  /** The offset after the last part of the value. */
  readonly end: number;
  /** Undefined where nothing can be completed: outside of the value, in comments, and after a value. */
  readonly position: FlowPosition | undefined;
  /** The values of the outermost mapping that are texts, by key. */
  readonly texts: ReadonlyMap<string, string>;
}

export interface FlowBounds {
  readonly caret: number;
  /** The column of the mapping or list of block style around the value; -1 without one. */
  readonly indent: number;
}

interface Key {
  readonly name: string;
  readonly from: number;
}
interface Collection {
  readonly isMapping: boolean;
  readonly keys: Key[];
  /** The key whose value follows. */
  key: string | undefined;
}

const space = /\s+/y;
const comment = /#[^\n]*/y;
/** Quoted text of one line. Text without a closing quote ends with its line. */
const quoted = /"(?:[^"\\\n]|\\.)*(?:"|$)|'[^'\n]*(?:'|$)/my;
const plain = /(?:[^\s,[\]{}:]|:(?![\s,[\]{}]|$)|[ \t]+(?=[^\s,[\]{}:#]))+/y;

/**
 * Scans a value of flow style that begins with the bracket at `start`. Without a closing bracket, it ends before a line that is not indented more than
 * the block around it, so that the rest of the document stays readable while the user types.
 */
export const scanFlow = (text: string, start: number, bounds: FlowBounds): FlowScan => new FlowScanner(text, bounds).scan(start);

class FlowScanner {
  readonly #text: string;
  readonly #caret: number;
  readonly #indent: number;
  readonly #open: Collection[] = [];
  readonly #texts = new Map<string, string>();
  /** The text that is a key if a colon follows. */
  #last: Key | undefined;
  /** True where a key or value can begin. */
  #isReady = false;
  #found: (Omit<FlowPosition, 'siblings'> & { readonly keys: readonly Key[] }) | undefined;

  constructor(text: string, { caret, indent }: FlowBounds) {
    this.#text = text;
    this.#caret = caret;
    this.#indent = indent;
  }

  scan(start: number): FlowScan {
    let end = start;
    for (let next: number | undefined = start; next !== undefined; ) {
      end = next;
      next = this.#read(next);
      if (next !== undefined && this.#open.length === 0) {
        end = next;
        break;
      }
    }
    if (this.#found === undefined) return { end, position: undefined, texts: this.#texts };
    const { keys, ...position } = this.#found;
    const siblings = keys.filter(({ from }) => from !== position.from).map(({ name }) => name);
    return { end, position: { ...position, siblings }, texts: this.#texts };
  }

  /** Reads the part at an offset. Returns the offset after it; undefined at the end of the value. */
  #read(offset: number): number | undefined {
    const letter = this.#text[offset];
    if (letter === undefined) return undefined;
    if (/\s/.test(letter)) return this.#readSpace(offset);
    if (letter === '#') return this.#endOf(comment, offset);
    if (letter === '{' || letter === '[') return this.#enter(letter, offset);
    if (letter === '}' || letter === ']') {
      this.#open.pop();
      return this.#after(offset + 1, { isReady: false });
    }
    if (letter === ',') {
      this.#top.key = undefined;
      return this.#after(offset + 1, { isReady: true });
    }
    const isQuoted = letter === '"' || letter === "'";
    if (letter === ':' && this.#last !== undefined && (this.#isAfterQuote(offset) || this.#endOf(plain, offset) === undefined))
      return this.#readColon(offset);
    return this.#readText(offset, isQuoted ? quoted : plain);
  }

  get #top(): Collection {
    return this.#open.at(-1) as Collection; // the scan ends with the last bracket
  }

  #endOf(pattern: RegExp, offset: number): number | undefined {
    pattern.lastIndex = offset;
    return pattern.test(this.#text) ? pattern.lastIndex : undefined;
  }

  #isAfterQuote = (offset: number): boolean => /["']/.test(this.#text[offset - 1] ?? '');

  #after(end: number, { isReady }: { readonly isReady: boolean }): number {
    this.#last = undefined;
    this.#isReady = isReady;
    if (isReady && end === this.#caret) this.#find(end, end);
    return end;
  }

  #enter(bracket: string, offset: number): number {
    this.#open.push({ isMapping: bracket === '{', keys: [], key: undefined });
    return this.#after(offset + 1, { isReady: true });
  }

  #readSpace(offset: number): number | undefined {
    const end = this.#endOf(space, offset) ?? offset;
    const isInside = offset < this.#caret && this.#caret <= end;
    const before = this.#text.slice(offset, this.#caret);
    if (isInside && (!before.includes('\n') || columnAt(this.#text, this.#caret) > this.#indent)) this.#find(this.#caret, this.#caret);
    if (!this.#text.slice(offset, end).includes('\n') || /[}\]]/.test(this.#text[end] ?? '')) return end;
    return columnAt(this.#text, end) <= this.#indent ? undefined : end;
  }

  #readColon(offset: number): number {
    const top = this.#top;
    top.key = this.#last?.name;
    if (this.#last !== undefined) top.keys.push(this.#last);
    this.#last = undefined;
    this.#isReady = true;
    return offset + 1;
  }

  #readText(offset: number, pattern: RegExp): number {
    const end = this.#endOf(pattern, offset) ?? offset + 1;
    if (pattern === plain && offset <= this.#caret && this.#caret <= end) this.#find(offset, end);
    if (pattern === quoted) this.#findInQuote(offset, end);
    const text = this.#text.slice(offset, end).replace(/^(["'])(.*)\1$/, '$2');
    const { key, isMapping } = this.#top;
    if (this.#open.length === 1 && key !== undefined) this.#texts.set(key, text);
    this.#last = isMapping && key === undefined ? { name: text, from: offset } : undefined;
    this.#isReady = false;
    return end;
  }

  /**
   * Records the position of a caret in quoted text. While the user types, the closing quote may be missing, and the next quote of the line then begins
   * another text: the text under the caret ends before a separator.
   */
  #findInQuote(offset: number, end: number): void {
    const text = this.#text.slice(offset, end);
    const quote = text[0] as Quote;
    const isClosed = text.length > 1 && text.endsWith(quote);
    const typed = this.#text.slice(offset + 1, this.#caret);
    if (offset >= this.#caret || (isClosed ? this.#caret >= end : this.#caret > end) || typed.includes('\\')) return;
    const rest = this.#text.slice(this.#caret, isClosed ? end - 1 : end);
    const isOwn = isClosed && !/[,{}[\]:]/.test(rest);
    const [own = ''] = /^[^\s,\]}#"':]*/.exec(rest) ?? [];
    this.#find(offset, isOwn ? end : this.#caret + own.length, quote);
  }

  /** Records the position of the caret, which is between `from` and `to`. A text that begins at the caret replaces the position before it. */
  #find(from: number, to: number, quote?: Quote): void {
    if (!this.#isReady) return;
    const { isMapping, key, keys } = this.#top;
    this.#found = {
      path: this.#open.flatMap((each, index) => {
        if (!each.isMapping) return ['[]'];
        return index < this.#open.length - 1 && each.key !== undefined ? [each.key] : [];
      }),
      key,
      prefix: this.#text.slice(from + (quote?.length ?? 0), this.#caret),
      ...(quote !== undefined && { quote }),
      from,
      to,
      keys,
      style: isMapping ? 'flow-mapping' : 'flow-list',
    };
  }
}

const columnAt = (text: string, offset: number): number => offset - (text.lastIndexOf('\n', offset - 1) + 1);
