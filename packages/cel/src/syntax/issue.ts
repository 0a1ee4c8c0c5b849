/** A parse or check error of an expression. */
export interface Issue {
  /** The offset of the error in the source. */
  readonly at: number;
  readonly message: string;
}

/** An error of the lexer or the parser. */
export class CelSyntaxError extends Error {
  readonly at: number;
  constructor(at: number, message: string) {
    super(message);
    this.at = at;
  }
}

/** Formats issues as cel-go does: the position, the message, the line and a mark below it. */
export function formatIssues(source: string, issues: readonly Issue[]): string {
  return issues.map((issue) => formatIssue(source, issue)).join('\n');
}

function formatIssue(source: string, { at, message }: Issue): string {
  const before = source.slice(0, at);
  const line = before.split('\n').length;
  const start = before.lastIndexOf('\n') + 1;
  const end = source.indexOf('\n', at);
  const text = source.slice(start, end < 0 ? undefined : end).replaceAll('\t', ' ');
  const column = Array.from(source.slice(start, at)).length;
  const mark = Array.from(source.slice(start, at), (char) => ((char.codePointAt(0) ?? 0) > 0xff ? '．' : '.')).join('');
  return `ERROR: <input>:${line}:${column + 1}: ${message}\n | ${text}\n | ${mark}^`;
}
