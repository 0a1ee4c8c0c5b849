import { printableLines } from '@oarlock/primitives/printable-text';
import { Option } from 'commander';
import { stringify } from 'yaml';

/** `text` is for readers and may change; the shapes of `json` and `yaml` are documented in docs/command-line.md. */
export const outputFormats = ['text', 'json', 'yaml'] as const;
export type OutputFormat = (typeof outputFormats)[number];

/** The option `--output` of each command that prints facts. */
export const output = (format: OutputFormat = 'text') =>
  new Option('-o, --output <format>', 'output format').choices(outputFormats).default(format);

/** Returns facts in the chosen format, with a line end. `text` formats them for readers. */
export function formatFacts<T extends object>(format: OutputFormat, facts: T, text: (facts: T) => string): string {
  if (format === 'json') return `${JSON.stringify(facts, null, 2)}\n`;
  if (format === 'yaml') return stringify(facts, { lineWidth: 0, aliasDuplicateObjects: false });
  // facts contain text of clients and nodes
  return `${printableLines(text(facts)).replace(/\n+$/, '')}\n`;
}

/** Prints facts in the chosen format. Resolves when the text has left the process, also into a pipe. */
export async function printFacts<T extends object>(format: OutputFormat, facts: T, text: (facts: T) => string): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    process.stdout.write(formatFacts(format, facts, text), (error) => (error ? reject(error) : resolve()));
  });
}
