import { backslash, closes, openBracket, opens, quote } from './json-codes.ts';
import { textPartsOf, type TextOptions } from './text-parts.ts';

/** The depth in which the items of an array of the document begin. */
const itemDepth = 2;

interface ItemsOptions<T> {
  /** The field of the document with the array of objects. */
  readonly field: string;
  onItem(item: T): void;
}

/**
 * Parses a JSON object whose field `field` is an array of objects, from its text in parts: calls `onItem` for each item as soon as its text is complete, so that
 * the text of the document is never in memory as a whole.
 */
class ItemParser<T> {
  readonly #field: RegExp;
  readonly #onItem: (item: T) => void;
  /** The document without its items. */
  #document = '';
  /** The beginning of an item whose end is in a later part. */
  #item = '';
  #depth = 0;
  #isInString = false;
  #isEscaped = false;
  #isInItems = false;

  constructor({ field, onItem }: ItemsOptions<T>) {
    this.#field = new RegExp(`(?<!\\\\)"${field}"\\s*:\\s*$`);
    this.#onItem = onItem;
  }

  add(text: string): void {
    let from = 0;
    for (let at = 0; at < text.length; at += 1) {
      const code = text.charCodeAt(at);
      if (this.#isEscaped) this.#isEscaped = false;
      else if (this.#isInString) {
        if (code === backslash) this.#isEscaped = true;
        else if (code === quote) this.#isInString = false;
      } else if (code === quote) this.#isInString = true;
      else if (opens(code)) {
        if (this.#isInItems && this.#depth === itemDepth) from = at;
        this.#depth += 1;
        if (code !== openBracket || this.#depth !== itemDepth || !this.#field.test(this.#document + text.slice(from, at))) continue;
        this.#document += text.slice(from, at + 1);
        this.#isInItems = true;
      } else if (closes(code)) {
        this.#depth -= 1;
        if (!this.#isInItems) continue;
        if (this.#depth === itemDepth) {
          this.#onItem(JSON.parse(this.#item + text.slice(from, at + 1)) as T);
          this.#item = '';
        } else if (this.#depth < itemDepth) {
          this.#isInItems = false;
          from = at;
        }
      }
    }
    if (!this.#isInItems) this.#document += text.slice(from);
    else if (this.#depth > itemDepth) this.#item += text.slice(from);
  }

  /** Returns the document without its items. @throws SyntaxError if it is incomplete */
  end(): unknown {
    return JSON.parse(this.#document);
  }
}

/**
 * Reads a JSON object whose field `field` is an array of objects, and calls `onItem` for each of them while the response arrives. Returns the object with an
 * empty array. The memory that a page needs for a response is then that of a part of it: browsers keep the memory of a text that was once needed.
 * @param pause called after each part; the page waits for what it returns
 */
export async function readItems<T, D>(
  { body }: Pick<Response, 'body'>,
  { pause, field, onItem, ...options }: ItemsOptions<T> & TextOptions & { pause(): Promise<void> | undefined },
): Promise<D> {
  if (body === null) throw new Error('the response has no body');
  const parser = new ItemParser<T>({ field, onItem });
  for await (const part of textPartsOf(body, options)) {
    parser.add(part);
    const paused = pause();
    if (paused !== undefined) await paused;
  }
  return parser.end() as D;
}
