import { backslash, closes, opens, quote } from './json-codes.ts';

const field = new TextEncoder().encode('"managedFields":[');

/**
 * Leaves the managed fields out of JSON of the API server, which arrives in parts: their array is empty then. They are most of the bytes of a pod, and views of
 * many objects do not show them: decoded and parsed, they would be most of the garbage of a watch. The name of the field cannot match within a string, where its
 * quotes are escaped.
 */
export class ManagedFieldsFilter {
  /** The number of bytes of `field` that the last part ended with. */
  #matched = 0;
  /** The number of brackets and braces that are open within the array; 0 outside of it. */
  #depth = 0;
  #isInString = false;
  #isEscaped = false;

  /** Moves the bytes of the part that are kept to its beginning, and returns them: a view of the same memory. */
  apply(bytes: Uint8Array): Uint8Array {
    let length = 0;
    for (let at = 0; at < bytes.length; ) {
      if (this.#depth > 0) {
        at = this.#endOfArray(bytes, at);
        continue;
      }
      const end = this.#beginOfArray(bytes, at);
      if (length < at) bytes.copyWithin(length, at, end);
      length += end - at;
      at = end;
    }
    return bytes.subarray(0, length);
  }

  /** Returns the position after the bracket with which managed fields begin, or the length of the part. */
  #beginOfArray(bytes: Uint8Array, from: number): number {
    let matched = this.#matched;
    let at = from;
    while (at < bytes.length && matched < field.length) {
      const code = bytes[at] as number;
      if (code === field[matched]) matched += 1;
      else matched = code === quote ? 1 : 0;
      at += 1;
    }
    const isComplete = matched === field.length;
    this.#depth = isComplete ? 1 : 0;
    this.#matched = isComplete ? 0 : matched;
    return at;
  }

  /** Returns the position of the bracket with which managed fields end, or the length of the part. */
  #endOfArray(bytes: Uint8Array, from: number): number {
    let [depth, isInString, isEscaped] = [this.#depth, this.#isInString, this.#isEscaped];
    let at = from;
    for (; at < bytes.length; at += 1) {
      const code = bytes[at] as number;
      if (isEscaped) isEscaped = false;
      else if (isInString) {
        if (code === backslash) isEscaped = true;
        else if (code === quote) isInString = false;
      } else if (code === quote) isInString = true;
      else if (opens(code)) depth += 1;
      else if (closes(code) && (depth -= 1) === 0) break;
    }
    [this.#depth, this.#isInString, this.#isEscaped] = [depth, isInString, isEscaped];
    return at;
  }
}
