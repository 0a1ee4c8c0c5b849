import { RE2JS } from 're2js';

/** A regular expression in RE2 syntax, matched in time linear in the text. */
export interface Pattern {
  /** Whether it occurs anywhere in the text. */
  test(text: string): boolean;
}

/** A pattern as Go's regexp reads it; the error where it cannot be read. */
export function compilePattern(source: string): Pattern | Error {
  try {
    return RE2JS.compile(source);
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error));
  }
}
