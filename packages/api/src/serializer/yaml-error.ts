import type { LineCounter, YAMLParseError } from 'yaml';

type YamlFault = Pick<YAMLParseError, 'code' | 'message' | 'pos'>;
/**
 * The error that Go's YAML library reports for an error of the `yaml` package. The scanner of Go's library counts lines from one, its
 * parser from zero.
 */
interface Words {
  readonly code: YamlFault['code'];
  readonly message: RegExp;
  readonly words: string;
  readonly by: 'scanner' | 'parser';
  /** Where Go's library reports the error, if it differs from the position that the `yaml` package reports. */
  readonly at?: 'end' | 'next line';
}

const table: readonly Words[] = [
  { code: 'BLOCK_AS_IMPLICIT_KEY', message: /./, words: 'mapping values are not allowed in this context', by: 'scanner' },
  { code: 'TAB_AS_INDENT', message: /./, words: 'found character that cannot start any token', by: 'scanner' },
  { code: 'BAD_SCALAR_START', message: /./, words: 'found character that cannot start any token', by: 'scanner' },
  { code: 'MISSING_CHAR', message: /^Missing closing/, words: 'found unexpected end of stream', by: 'scanner', at: 'end' },
  { code: 'MISSING_CHAR', message: /^Implicit map keys/, words: "could not find expected ':'", by: 'scanner', at: 'next line' },
  { code: 'BAD_INDENT', message: /^All mapping items/, words: 'did not find expected key', by: 'parser' },
  { code: 'UNEXPECTED_TOKEN', message: /at node end$/, words: "did not find expected '-' indicator", by: 'parser' },
  { code: 'UNEXPECTED_TOKEN', message: /flow-(?:map|seq)-end/, words: 'did not find expected node content', by: 'parser' },
  { code: 'BAD_INDENT', message: /^Flow sequence/, words: "did not find expected ',' or ']'", by: 'parser' },
  { code: 'MISSING_CHAR', message: /^Flow sequence/, words: "did not find expected ',' or ']'", by: 'parser' },
  { code: 'BAD_INDENT', message: /^Flow map/, words: "did not find expected ',' or '}'", by: 'parser' },
  { code: 'MISSING_CHAR', message: /^Flow map/, words: "did not find expected ',' or '}'", by: 'parser' },
];

/**
 * Returns the error message, with the line, that Go's YAML library has for a parse error of the `yaml` package. An error without a known
 * counterpart keeps the message of the `yaml` package.
 */
export function goYamlError(fault: YamlFault, text: string, lines: LineCounter): string {
  const known = table.find(({ code, message }) => code === fault.code && message.test(fault.message));
  if (known === undefined) return `yaml: line ${lines.linePos(fault.pos[0]).line}: ${fault.message}`;
  const { by, at } = known;
  const found = lineOf(at === 'end' ? text.length : fault.pos[0], text, lines) + (at === 'next line' ? 1 : 0);
  const line = found === 0 ? 0 : by === 'scanner' ? found + 1 : found;
  // inside an open flow list Go reports the missing item, not the end of the document
  const words =
    fault.message.startsWith('Flow') && /[[{,]\s*$/.test(text.slice(0, fault.pos[0])) ? 'did not find expected node content' : known.words;
  return line === 0 ? `yaml: ${words}` : `yaml: line ${line}: ${words}`;
}

/**
 * Returns the zero-based line of a position. The end of the text counts as a line of its own, even if the text does not end with a line
 * break.
 */
function lineOf(position: number, text: string, lines: LineCounter): number {
  const { line, col } = lines.linePos(Math.min(position, text.length));
  return position >= text.length && col > 1 ? line : line - 1;
}
