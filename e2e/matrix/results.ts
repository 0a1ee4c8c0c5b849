import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { root } from '../harness/oarlock.ts';

/** The results of tests, as cells of a table. */
export class Results {
  readonly #passed = new Map<string, boolean>();

  note(test: string, passed: boolean): void {
    this.#passed.set(test, passed);
  }
  /** `–` marks tests that did not run. */
  mark(test: string): string {
    const passed = this.#passed.get(test);
    return passed === undefined ? '–' : passed ? '✔' : '✖';
  }
}

const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;

/** A Markdown table whose cells are marks. */
export function table(
  corner: string,
  rows: readonly string[],
  columns: readonly string[],
  cell: (row: string, column: string) => string,
): string {
  return [
    line([corner, ...columns]),
    line(['---', ...columns.map(() => ':-:')]),
    ...rows.map((row) => line([row, ...columns.map((column) => cell(row, column))])),
  ].join('\n');
}

/** A Markdown table of existing rows. */
export const list = (heads: readonly string[], rows: readonly (readonly string[])[]): string =>
  [line(heads), line(heads.map(() => '---')), ...rows.map(line)].join('\n');

/** As `publishIn`, in docs/matrix.md. */
export const publish = (heading: string, ...tables: readonly string[]): Promise<void> => publishIn('matrix.md', heading, ...tables);

/**
 * Prints tables; with OARLOCK_WRITE_MATRIX=1 they also replace those below a heading of a page in docs. Text before the tables stays.
 * @throws Error if the page has no such heading
 */
export async function publishIn(name: string, heading: string, ...tables: readonly string[]): Promise<void> {
  const page = join(root, 'docs', name);
  const text = tables.join('\n\n');
  console.log(`\n${text.replaceAll('<br>', ' ')}\n`);
  if (process.env['OARLOCK_WRITE_MATRIX'] !== '1') return;
  const before = await readFile(page, 'utf8');
  const start = before.indexOf(`\n${heading}\n`);
  if (start < 0) throw new Error(`${page} has no heading ${JSON.stringify(heading)}`);
  const rest = before.indexOf('\n#', start + 1);
  const end = rest < 0 ? before.length : rest;
  const tablesAt = before.indexOf('\n|', start);
  const prose = before.slice(0, tablesAt < 0 || tablesAt > end ? end : tablesAt).trimEnd();
  await writeFile(page, `${prose}\n\n${text}\n${before.slice(end)}`);
}
