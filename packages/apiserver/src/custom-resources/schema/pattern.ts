import { RE2JS } from 're2js';

/** A regular expression in RE2 syntax that matches in time linear in the text. */
export interface Pattern {
  /** Returns true if the pattern matches any part of the text. */
  test(text: string): boolean;
}

/** Compiles a pattern as Go's regexp package does; returns an Error if the pattern is invalid. */
export function compilePattern(source: string): Pattern | Error {
  try {
    return RE2JS.compile(source);
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error));
  }
}
